"""The section `curves`: every operation of every kind of queue at growing depths, as tables and plots."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec
import uvloop

from lab.bench.sections.depth import DepthFigures, Side, Times, compare, handles_of, means, messages, receive
from lab.bench.sections.drawing import draw
from lab.bench.sections.queue_count import measure_queue_counts, once
from lab.bench.sections.queue_kinds import KINDS, Kind, QueueFiller
from lab.bench.sections.runs import SERVICE, served
from lab.harness.server import Server
from lab.harness.usage import await_quiet
from lab.load.queues import BATCH, Client
from lab.load.wire import Script, connect
from lab.measure.figures import bar_cell

DOCS = Path(__file__).parents[3] / "docs"
DRAWINGS = DOCS / "curves"
BAR = 1.2
FILLERS = 16
NOISY = 40
"""Messages of one tenant of a fair queue that stay in flight, so that receives prefer the other tenants."""
HOLD_S = 43_200
CLEARING_S_MAX = 300.0


class Size(msgspec.Struct, frozen=True, kw_only=True):
    depths: tuple[int, ...]
    queues: tuple[int, ...]
    cycles: int
    ended: int  # queues that are purged at each depth, and as many that are deleted
    ended_messages_max: int  # limit of messages sent to those queues; there is at least one of each


FULL = Size(
    depths=(100, 10_000, 1_000_000), queues=(10, 1_000, 10_000), cycles=400, ended=10, ended_messages_max=100_000
)

SHORT = msgspec.structs.replace(FULL, depths=(100, 10_000, 100_000))
"""For `--runs 1`: filling three queues of a million messages takes 15 minutes for each kind."""

Servers = list[tuple[int, Server]]
"""(depth or number of queues, server)"""


def table(scratch: Path, n: int, seed: int) -> list[str]:
    size = FULL if n > 1 else SHORT
    DRAWINGS.mkdir(exist_ok=True)
    lines = []
    for kind in KINDS:
        curve = _measured(scratch / kind.file, size.depths, partial(measure_messages, kind=kind, size=size, seed=seed))
        lines += [*_section(kind.name, f"{kind.file}.svg", "depth", curve), ""]
    curve = _measured(scratch / "queues", size.queues, partial(measure_queue_counts, cycles=size.cycles, seed=seed))
    lines += [*_section("number of queues", "queues.svg", "number of queues", curve), ""]
    with served("once", SERVICE, scratch / "once") as server:
        return lines + _once(uvloop.run(once(server, size.cycles, seed)))


def _measured(
    scratch: Path, depths: Sequence[int], measure: Callable[[Servers], Awaitable[list[DepthFigures]]]
) -> list[DepthFigures]:
    """Run one server for each depth, all at the same time, and measure them."""

    async def run(servers: Servers) -> list[DepthFigures]:
        return await measure(servers)

    with ExitStack() as stack:
        servers = [(n, stack.enter_context(served(f"depth {n:,}", SERVICE, scratch / str(n)))) for n in depths]
        curve = uvloop.run(run(servers))
    shutil.rmtree(scratch)  # some gigabytes
    return curve


# -- what is measured -------------------------------------------------------------------------------------------------


async def measure_messages(servers: Servers, kind: Kind, size: Size, seed: int) -> list[DepthFigures]:
    """Measure all operations on queues of one kind."""
    clients, sides = [], []
    for depth, server in servers:
        client = Client(server, await connect(server.port, FILLERS), seed)
        for name in _queues_to_end(size, depth):
            await _filled_queue(client, kind, depth, name)
        filler = await _filled_queue(client, kind, depth, "deep")
        clients.append(client)
        sides.append(Side(depth, client, partial(messages, filler)))
    figures = await compare(sides, size.cycles)
    ends = [await _time_purges_and_deletes(client, kind, _queues_to_end(size, depth)) for depth, client, _ in sides]
    for client in clients:
        client.close()
    return [
        msgspec.structs.replace(one, mean_ms={**one.mean_ms, **means(times)})
        for one, times in zip(figures, ends, strict=True)
    ]


def _queues_to_end(size: Size, depth: int) -> list[str]:
    n = max(min(size.ended, size.ended_messages_max // depth), 1)
    return [f"{end}-{number}" for number in range(n) for end in ("purged", "deleted")]


async def _filled_queue(client: Client, kind: Kind, depth: int, name: str) -> QueueFiller:
    filler = QueueFiller(client, kind, depth)
    await filler.use_queue(name)
    if kind.fair:
        await receive_noisy(client)
    await filler.fill(depth)
    return filler


async def receive_noisy(client: Client) -> None:
    entries = [{"Id": str(n), "MessageBody": client.body(), "MessageGroupId": "noisy"} for n in range(BATCH)]

    def script() -> Script:
        for _ in range(0, NOISY, BATCH):
            yield [], client.call("SendMessageBatch", Entries=entries)
            handles_of((yield [], receive(client, BATCH, HOLD_S)), BATCH)

    await client.lanes[0].start(script())


async def _time_purges_and_deletes(client: Client, kind: Kind, names: Sequence[str]) -> Times:
    """Each queue is purged or deleted once, since it is empty then.

    The next begins when the messages of the previous one are cleared away.
    """
    times: Times = defaultdict(list)

    def script(name: str) -> Script:
        if name.startswith("purged"):
            yield times["purge"], client.call("PurgeQueue")
        else:
            yield times["delete queue"], client.call("DeleteQueue")

    for name in names:
        await asyncio.to_thread(await_quiet, CLEARING_S_MAX, client.server.cpu_s)
        await QueueFiller(client, kind, 0).use_queue(name)
        await client.lanes[0].start(script(name))
    return times


# -- tables -----------------------------------------------------------------------------------------------------------


def _section(name: str, file: str, depth_is: str, curve: Sequence[DepthFigures]) -> list[str]:
    """The table's lines; also draws the plot into a file."""
    depths = [one.depth for one in curve]
    times = {operation: [one.mean_ms[operation] for one in curve] for operation in curve[0].mean_ms}
    (DRAWINGS / file).write_text(draw(f"{name}: time relative to the smallest {depth_is}", depths, times, BAR))
    header = " | ".join(f"{depth:,}" for depth in depths)
    return [
        f"| {name}: mean ms at a {depth_is} of | {header} | last : first | bar |",
        "|---" * (len(depths) + 3) + "|",
        *[
            f"| {operation} | {' | '.join(f'{ms:.3f}' for ms in at)} | **{at[-1] / at[0]:.2f}** |"
            f" {bar_cell(f'≤ {BAR}', met=at[-1] / at[0] <= BAR)} |"
            for operation, at in times.items()
        ],
        f"| CPU µs of one cycle of all operations | {' | '.join(f'{one.cpu_us:.0f}' for one in curve)} |"
        f" {curve[-1].cpu_us / curve[0].cpu_us:.2f} | |",
        "",
        f"![{name}]({(DRAWINGS / file).relative_to(DOCS)})",
    ]


def _once(mean_ms: dict[str, float]) -> list[str]:
    return [
        "| independent of depth and number of queues | mean ms |",
        "|---|---|",
        *[f"| {operation} | {ms:.3f} |" for operation, ms in mean_ms.items()],
    ]
