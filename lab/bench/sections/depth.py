"""Times of operations at a depth: one connection, one call at a time; each cycle leaves the depth as it was."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from lab.bench.tables import ratio_cells
from lab.load.queues import BATCH, HIDE_S, VARIANTS, Client, accepted, handles_of
from lab.load.wire import Budget, LoadError, Script, run
from lab.measure.figures import NS_PER_MS, US_PER_S

BLOCK = 20
"""The depths alternate after this number of cycles, so that the machine's speed is the same for all."""
MESSAGES_A_GROUP = 10
FILLERS = 16
FILL_SECONDS_MAX = 900.0
HOLD_S = 43_200
NOISY = 40
"""Messages of one tenant of a fair queue that stay in flight, so that receives prefer the other tenants."""

Times = defaultdict[str, list[int]]
"""Operation → times in ns."""


class Side(NamedTuple):
    """One of the compared depths: a server, and the cycle of operations to repeat there."""

    depth: int
    client: Client
    cycle: Callable[[Times], Script]


class DepthFigures(msgspec.Struct, frozen=True, kw_only=True):
    depth: int
    mean_ms: dict[str, float]  # by operation
    cpu_us: float  # the server's, per cycle


async def compare(sides: Sequence[Side], cycles: int) -> list[DepthFigures]:
    """Measure servers that are filled to different depths, alternating."""
    times: list[Times] = [defaultdict(list) for _ in sides]
    for side in sides:
        await side.client.connect_anew()  # the server may have closed the first while the last was filled
        await _run(side, min(BLOCK, cycles), defaultdict(list))  # warms up
    before_s = [side.client.server.cpu_s() for side in sides]
    for begun in range(0, cycles, BLOCK):
        for side, taken in zip(sides, times, strict=True):
            await _run(side, min(BLOCK, cycles - begun), taken)
    used_s = [side.client.server.cpu_s() - before for side, before in zip(sides, before_s, strict=True)]
    for side in sides:
        side.client.close()
    return [
        DepthFigures(depth=side.depth, mean_ms=means(taken), cpu_us=round(used / cycles * US_PER_S, 1))
        for side, taken, used in zip(sides, times, used_s, strict=True)
    ]


async def _run(side: Side, cycles: int, times: Times) -> None:
    def script() -> Script:
        for _ in range(cycles):
            yield from side.cycle(times)

    await side.client.lanes[0].start(script())


def means(times: Times) -> dict[str, float]:
    return {name: round(statistics.fmean(ns) / NS_PER_MS, 4) for name, ns in times.items()}


def rows(curve: Sequence[DepthFigures], bar: float, digits: int = 3) -> list[tuple[str, ...]]:
    """For each operation its times at all depths, and the ratio of the last to the first."""
    return [
        (name, *[f"{one.mean_ms[name]:.{digits}f}" for one in curve], *ratio_cells(_ratio(curve, name), bar))
        for name in curve[0].mean_ms
    ]


def _ratio(curve: Sequence[DepthFigures], name: str) -> float:
    return curve[-1].mean_ms[name] / curve[0].mean_ms[name]


# -- queues of a kind -------------------------------------------------------------------------------------------------


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    file: str
    fifo: bool = False
    groups_max: int = 0  # 0: messages have no group

    @property
    def fair(self) -> bool:
        return self.groups_max > 0 and not self.fifo

    def queue(self, name: str) -> str:
        return f"{self.file}-{name}{'.fifo' if self.fifo else ''}"

    def members(self, number: int, depth: int) -> dict[str, str]:
        """Members of a send besides the body. All deduplication ids differ."""
        if not self.groups_max:
            return {}
        group = f"group-{number % max(min(self.groups_max, depth // MESSAGES_A_GROUP), 1)}"
        return {"MessageGroupId": group, **({"MessageDeduplicationId": str(number)} if self.fifo else {})}


KINDS = (
    Kind(name="standard", file="standard"),
    Kind(name="fair, 1,000 tenants", file="fair", groups_max=1_000),
    Kind(name="FIFO, many groups", file="fifo-many", fifo=True, groups_max=1_000_000),
    Kind(name="FIFO, one group", file="fifo-one", fifo=True, groups_max=1),
)


class QueueFiller:
    """Sends numbered messages to a queue of a kind."""

    def __init__(self, client: Client, kind: Kind, depth: int) -> None:
        self.client = client
        self.kind = kind
        bodies = [client.body() for _ in range(VARIANTS)]
        self._messages = (
            {"MessageBody": bodies[number % VARIANTS], **kind.members(number, depth)} for number in range(10**12)
        )

    async def use_queue(self, name: str) -> None:
        attributes = {"FifoQueue": "true"} if self.kind.fifo else {}
        await self.client.use_queue(self.kind.queue(name), **attributes)

    async def fill(self, name: str, messages: int, hidden: int = 0) -> None:
        """Send so many messages to a queue over all connections, and receive some of them for long."""
        await self.use_queue(name)
        if self.kind.fair:
            await self._receive_noisy()
        await _all(self.client, messages, lambda: accepted_batch(self.send_batch()))
        await _all(self.client, hidden, lambda: _hidden_batch(self.client))

    def send(self) -> bytes:
        return self.client.call("SendMessage", **next(self._messages))

    def send_batch(self) -> bytes:
        return self.client.send_batch(islice(self._messages, BATCH))

    async def _receive_noisy(self) -> None:
        noisy = [{"MessageBody": self.client.body(), "MessageGroupId": "noisy"}] * BATCH

        def script() -> Script:
            for _ in range(0, NOISY, BATCH):
                yield [], self.client.send_batch(noisy)
                yield from _hidden_batch(self.client)

        await self.client.lanes[0].start(script())

    def cycle(self, times: Times) -> Script:
        """One cycle of all message operations, single and in batches of ten."""
        client = self.client
        yield times["send"], self.send()
        (handle,) = handles_of((yield times["receive"], client.receive(1)), 1)
        visibility = {"ReceiptHandle": handle.decode(), "VisibilityTimeout": HIDE_S}
        yield times["change visibility"], client.call("ChangeMessageVisibility", **visibility)
        yield times["get attributes"], client.call("GetQueueAttributes", AttributeNames=["All"])
        yield times["delete"], client.delete(handle)
        yield times["batch send"], self.send_batch()
        handles = handles_of((yield times["batch receive"], client.receive(BATCH)), BATCH)
        accepted((yield times["batch change visibility"], _change_batch(client, handles)))
        accepted((yield times["batch delete"], client.delete_batch(handles)))


def accepted_batch(request: bytes) -> Script:
    accepted((yield [], request))


def _hidden_batch(client: Client) -> Script:
    handles_of((yield [], client.receive(BATCH, HOLD_S)), BATCH)


async def _all(client: Client, messages: int, of_batch: Callable[[], Script]) -> None:
    """Repeat the script of a batch over all connections."""
    budget = Budget(messages, FILL_SECONDS_MAX)

    def script() -> Script:
        while budget.take(BATCH):
            yield from of_batch()

    await run(client.lanes, [script() for _ in client.lanes])
    if budget.left:
        raise LoadError(f"{budget.left:,} of {messages:,} messages are left after {FILL_SECONDS_MAX:.0f} s")


def _change_batch(client: Client, handles: Sequence[bytes]) -> bytes:
    entries = [
        {"Id": str(place), "ReceiptHandle": handle.decode(), "VisibilityTimeout": HIDE_S}
        for place, handle in enumerate(handles)
    ]
    return client.call("ChangeMessageVisibilityBatch", Entries=entries)
