"""The section `curves`: every operation of every kind of queue at growing depths, as tables and drawn."""

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

from bench.load.queues import BATCH, Client
from bench.load.wire import Script, connect
from bench.measure.figures import bar_cell
from bench.measure.processes import Server, await_quiet
from bench.sections.depth import DepthFigures, Side, Times, compare, held, means, messages, receive
from bench.sections.directory import of_queues, once
from bench.sections.drawing import draw
from bench.sections.kinds import KINDS, Kind, Stock
from bench.sections.runs import SERVICE, served

DOCS = Path(__file__).parents[2] / "docs"
DRAWINGS = DOCS / "curves"
BAR = 1.2
FILLERS = 16
NOISY = 40
"""So many messages of one tenant of a fair queue are in flight all the time: receives look for those of the others."""
HOLD_S = 43_200
CLEARING_S_MAX = 300.0


class Size(msgspec.Struct, frozen=True, kw_only=True):
    depths: tuple[int, ...]
    queues: tuple[int, ...]
    cycles: int
    ended: int  # queues that are purged, and as many that are deleted, at each depth
    ended_messages_max: int  # sent for those, at most; but one of each there is always


FULL = Size(
    depths=(100, 10_000, 1_000_000), queues=(10, 1_000, 10_000), cycles=400, ended=10, ended_messages_max=100_000
)

SHORT = msgspec.structs.replace(FULL, depths=(100, 10_000, 100_000))
"""For `--runs 1`: three queues of a million, of each kind, take a quarter of an hour to fill."""

Servers = list[tuple[int, Server]]
"""With the depth that each is filled to."""


def table(scratch: Path, n: int, seed: int) -> list[str]:
    size = FULL if n > 1 else SHORT
    DRAWINGS.mkdir(exist_ok=True)
    lines = []
    for kind in KINDS:
        curve = _measured(scratch / kind.file, size.depths, partial(of_messages, kind=kind, size=size, seed=seed))
        lines += [*_section(kind.name, f"{kind.file}.svg", "depth", curve), ""]
    curve = _measured(scratch / "queues", size.queues, partial(of_queues, cycles=size.cycles, seed=seed))
    lines += [*_section("number of queues", "queues.svg", "number of queues", curve), ""]
    with served("once", SERVICE, scratch / "once") as server:
        return lines + _once(uvloop.run(once(server, size.cycles, seed)))


def _measured(
    scratch: Path, depths: Sequence[int], measure: Callable[[Servers], Awaitable[list[DepthFigures]]]
) -> list[DepthFigures]:
    """One server a depth, all at the same time."""

    async def run(servers: Servers) -> list[DepthFigures]:
        return await measure(servers)

    with ExitStack() as stack:
        servers = [(n, stack.enter_context(served(f"depth {n:,}", SERVICE, scratch / str(n)))) for n in depths]
        curve = uvloop.run(run(servers))
    shutil.rmtree(scratch)  # some gigabytes, which the next need not lie beside
    return curve


# -- what is measured -------------------------------------------------------------------------------------------------


async def of_messages(servers: Servers, kind: Kind, size: Size, seed: int) -> list[DepthFigures]:
    """All operations on queues of one kind."""
    clients, sides = [], []
    for depth, server in servers:
        client = Client(server, await connect(server.port, FILLERS), seed)
        for name in _to_end(size, depth):
            await _stocked(client, kind, depth, name)
        stock = await _stocked(client, kind, depth, "deep")
        clients.append(client)
        sides.append(Side(depth, client, partial(messages, stock)))
    figures = await compare(sides, size.cycles)
    ends = [await _ends(client, kind, _to_end(size, depth)) for depth, client, _ in sides]
    for client in clients:
        client.close()
    return [
        msgspec.structs.replace(one, mean_ms={**one.mean_ms, **means(times)})
        for one, times in zip(figures, ends, strict=True)
    ]


def _to_end(size: Size, depth: int) -> list[str]:
    n = max(min(size.ended, size.ended_messages_max // depth), 1)
    return [f"{end}-{number}" for number in range(n) for end in ("purged", "deleted")]


async def _stocked(client: Client, kind: Kind, depth: int, name: str) -> Stock:
    stock = Stock(client, kind, depth)
    await stock.use_queue(name)
    if kind.fair:
        await _hold_noisy(client)
    await stock.fill(depth)
    return stock


async def _hold_noisy(client: Client) -> None:
    entries = [{"Id": str(n), "MessageBody": client.body(), "MessageGroupId": "noisy"} for n in range(BATCH)]

    def script() -> Script:
        for _ in range(0, NOISY, BATCH):
            yield [], client.call("SendMessageBatch", Entries=entries)
            held((yield [], receive(client, BATCH, HOLD_S)), BATCH)

    await client.lanes[0].start(script())


async def _ends(client: Client, kind: Kind, names: Sequence[str]) -> Times:
    """Each queue is purged or deleted once: there is no second time at this depth.

    One after the other, when what the one before left behind is cleared away.
    """
    times: Times = defaultdict(list)

    def script(name: str) -> Script:
        if name.startswith("purged"):
            yield times["purge"], client.call("PurgeQueue")
        else:
            yield times["delete queue"], client.call("DeleteQueue")

    for name in names:
        await asyncio.to_thread(await_quiet, CLEARING_S_MAX, client.server.cpu_s)
        await Stock(client, kind, 0).use_queue(name)
        await client.lanes[0].start(script(name))
    return times


# -- tables -----------------------------------------------------------------------------------------------------------


def _section(name: str, file: str, depth_is: str, curve: Sequence[DepthFigures]) -> list[str]:
    """A table, and its drawing beside the page."""
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
