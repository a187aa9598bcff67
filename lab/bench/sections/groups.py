"""The section `groups`: a FIFO queue almost all of whose groups are blocked, against a small one in the same run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, count, cycle, islice
from pathlib import Path

import msgspec
import uvloop

from lab.bench.sections.depth import DepthFigures, Side, Times, compare, handles_of, receive
from lab.bench.sections.runs import SERVICE, served
from lab.harness.server import Server
from lab.load.queues import BATCH, VARIANTS, Client, delete_batch_request, delete_request, handles_in
from lab.load.wire import LoadError, Script, connect, run
from lab.measure.figures import bar_cell

CONNECTIONS = 16
CYCLES = 400
BAR = 1.5
HOLD_S = 43_200
QUEUE = "groups.fifo"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's groups. The first message of a blocked group is in flight."""

    groups: int
    blocked: int
    each: int  # messages per group

    @property
    def messages(self) -> int:
        return self.groups * self.each


SMALL = Shape(groups=10, blocked=0, each=10)
LARGE = Shape(groups=100_000, blocked=99_000, each=10)


class _Queue:
    """A queue of a given shape."""

    def __init__(self, client: Client, shape: Shape) -> None:
        self.client = client
        self.shape = shape
        self._numbers = count()
        self._bodies = [client.body() for _ in range(VARIANTS)]
        self._free = cycle(range(shape.blocked, shape.groups))

    async def fill(self) -> None:
        """First send and receive one message of each group to block: with more, a receive may take ten of one group."""
        blocked, shape = range(self.shape.blocked), self.shape
        await self.client.use_queue(QUEUE, FifoQueue="true")
        await self._send(blocked)
        await self._block()
        behind = chain.from_iterable([blocked] * (shape.each - 1))
        free = chain.from_iterable([range(shape.blocked, shape.groups)] * shape.each)
        await self._send(chain(behind, free))

    def send(self, groups: Iterable[int]) -> bytes:
        return self.client.call("SendMessageBatch", Entries=[self._entry(group) for group in groups])

    def cycle(self, times: Times) -> Script:
        client = self.client
        for n in (1, BATCH):
            yield times[f"send {n}"], self.send(islice(self._free, n))
            handles = handles_of((yield times[f"receive {n}"], receive(client, n)), n)
            deleting = delete_request(client, handles[0]) if n == 1 else delete_batch_request(client, handles)
            if b'"Failed"' in (yield times[f"delete {n}"], deleting):
                raise LoadError("an entry of a batch was refused")

    async def _send(self, groups: Iterable[int]) -> None:
        left = iter(groups)

        def script() -> Script:
            while some := list(islice(left, BATCH)):
                if b'"Failed"' in (yield [], self.send(some)):
                    raise LoadError("an entry of a batch was refused")

        await run(self.client.lanes, [script() for _ in self.client.lanes])

    async def _block(self) -> None:
        handles: list[bytes] = []

        def script() -> Script:
            while found := handles_in((yield [], receive(self.client, BATCH, HOLD_S))):
                handles.extend(found)

        await run(self.client.lanes, [script() for _ in self.client.lanes])
        if len(set(handles)) != self.shape.blocked:
            raise LoadError(f"{len(set(handles)):,} groups are blocked, not {self.shape.blocked:,}")

    def _entry(self, group: int) -> dict[str, str]:
        number = next(self._numbers)
        return {
            "Id": str(number),
            "MessageBody": self._bodies[number % len(self._bodies)],
            "MessageGroupId": f"group-{group}",
            "MessageDeduplicationId": str(number),
        }


async def measure(sides: Sequence[tuple[Shape, Server]], cycles: int, seed: int) -> list[DepthFigures]:
    """Measure one queue per server, alternating."""
    queues = [_Queue(Client(server, await connect(server.port, CONNECTIONS), seed), shape) for shape, server in sides]
    for queue in queues:
        await queue.fill()
    figures = await compare([Side(queue.shape.messages, queue.client, queue.cycle) for queue in queues], cycles)
    for queue in queues:
        queue.client.close()
    return figures


# -- the section ------------------------------------------------------------------------------------------------------


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    with (
        served("small", SERVICE, scratch / "groups-small") as small,
        served("large", SERVICE, scratch / "groups-large") as large,
    ):
        return lines(*uvloop.run(measure([(SMALL, small), (LARGE, large)], CYCLES, seed)))


def lines(small: DepthFigures, large: DepthFigures) -> list[str]:
    return [
        f"{LARGE.messages:,} messages in {LARGE.groups:,} groups, of which {LARGE.blocked:,} are blocked: their first"
        f" message is in flight. Compared with {SMALL.messages} messages in {SMALL.groups} groups, alternating. One"
        " connection, one call at a time.",
        "",
        f"| mean ms with | {small.depth:,} messages | {large.depth:,}, blocked | ratio | bar |",
        "|---|---|---|---|---|",
        *[_line(name, small.mean_ms[name], large.mean_ms[name]) for name in small.mean_ms],
        *[_line(f"**receive + delete {n}**", _pair(small, n), _pair(large, n), BAR) for n in (1, BATCH)],
    ]


def _line(name: str, small_ms: float, large_ms: float, bar: float | None = None) -> str:
    ratio = large_ms / small_ms
    cell = "" if bar is None else bar_cell(f"≤ {bar}", met=ratio <= bar)
    return f"| {name} | {small_ms:.3f} | {large_ms:.3f} | {ratio:.2f} | {cell} |"


def _pair(figures: DepthFigures, n: int) -> float:
    return figures.mean_ms[f"receive {n}"] + figures.mean_ms[f"delete {n}"]
