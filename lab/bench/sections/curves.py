"""The sections `curves` and `depths`: every operation of every kind of queue at growing depths, as tables and plots,
and of standard queues of the cluster form."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import uvloop

from lab.bench.drawing import draw
from lab.bench.page import DOCS
from lab.bench.sections.depth import (
    FILLERS,
    KINDS,
    DepthFigures,
    Kind,
    QueueFiller,
    Side,
    Times,
    compare,
    means,
    rows,
)
from lab.bench.servers import NO_WORKER, service
from lab.bench.site import store
from lab.bench.tables import table
from lab.harness.cluster import settings_in
from lab.harness.server import Server
from lab.harness.usage import await_quiet
from lab.load.queues import Client, open_client
from lab.load.wire import Script

DRAWINGS = DOCS / "curves"
BAR = 1.2
CLEARING_S_MAX = 300.0
DEPTHS = (1_000, 100_000, 1_000_000)
HIDDEN = (0, 10_000, 100_000)
SHALLOW = 1_000
"""Visible messages of a queue with hidden ones."""
CYCLES = 300


class Size(msgspec.Struct, frozen=True, kw_only=True):
    depths: tuple[int, ...]
    cycles: int
    ended: int  # queues that are purged at each depth, and as many that are deleted
    ended_messages_max: int  # limit of messages sent to those queues; there is at least one of each


FULL = Size(depths=(100, 10_000, 1_000_000), cycles=400, ended=10, ended_messages_max=100_000)

SHORT = msgspec.structs.replace(FULL, depths=(100, 10_000, 100_000))
"""For `--runs 1`: filling three queues of a million messages takes 15 minutes for each kind."""


def section(scratch: Path, n: int, seed: int) -> list[str]:
    size = FULL if n > 1 else SHORT
    DRAWINGS.mkdir(exist_ok=True)
    lines = []
    for kind in KINDS:
        with ExitStack() as stack:
            servers = [(n, stack.enter_context(service(scratch / f"{kind.file}-{n}"))) for n in size.depths]
            lines += [*_drawn(kind, uvloop.run(measure(servers, kind, size, seed))), ""]
        for n in size.depths:
            shutil.rmtree(scratch / f"{kind.file}-{n}")  # some gigabytes
    return lines[:-1]


async def measure(servers: Sequence[tuple[int, Server]], kind: Kind, size: Size, seed: int) -> list[DepthFigures]:
    """Measure all operations on queues of one kind, on a server for each depth."""
    sides = []
    for depth, server in servers:
        client = await open_client(server, FILLERS, seed)
        filler = QueueFiller(client, kind, depth)
        for name in (*_queues_to_end(size, depth), "deep"):
            await filler.fill(name, depth)
        sides.append(Side(depth, client, filler.cycle))
    figures = await compare(sides, size.cycles)
    ends = [await _time_purges_and_deletes(client, kind, _queues_to_end(size, depth)) for depth, client, _ in sides]
    return [
        msgspec.structs.replace(one, mean_ms={**one.mean_ms, **means(times)})
        for one, times in zip(figures, ends, strict=True)
    ]


def _queues_to_end(size: Size, depth: int) -> list[str]:
    n = max(min(size.ended, size.ended_messages_max // depth), 1)
    return [f"{end}-{number}" for number in range(n) for end in ("purged", "deleted")]


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
        await client.connect_anew()
        await QueueFiller(client, kind, 0).use_queue(name)
        await client.lanes[0].start(script(name))
    client.close()
    return times


def _drawn(kind: Kind, curve: Sequence[DepthFigures]) -> list[str]:
    """The table's lines; also draws the plot into a file."""
    depths, file = [one.depth for one in curve], DRAWINGS / f"{kind.file}.svg"
    times = {operation: [one.mean_ms[operation] for one in curve] for operation in curve[0].mean_ms}
    file.write_text(draw(f"{kind.name}: time relative to the smallest depth", depths, times, BAR))
    header = (f"{kind.name}: mean ms at a depth of", *[f"{depth:,}" for depth in depths], "last : first", "bar")
    cpu_us, ratio = [f"{one.cpu_us:.0f}" for one in curve], f"{curve[-1].cpu_us / curve[0].cpu_us:.2f}"
    cpu = ("CPU µs of one cycle of all operations", *cpu_us, ratio, "")
    return [*table(header, [*rows(curve, BAR), cpu]), "", f"![{kind.name}]({file.relative_to(DOCS)})"]


# -- the cluster form -------------------------------------------------------------------------------------------------


def cluster_section(scratch: Path, _n: int, seed: int) -> list[str]:
    """Queues of the cluster form by their depth, and by hidden messages: one API process on Cassandra and Redis. All
    queues exist at the same time."""
    with store() as place, service(scratch, settings_in(place), NO_WORKER) as server:
        deep = uvloop.run(measure_in_turn(server, [(depth, 0) for depth in DEPTHS], CYCLES, seed))
        held = uvloop.run(measure_in_turn(server, [(SHALLOW, hidden) for hidden in HIDDEN], CYCLES, seed))
    return [*_table("a depth", DEPTHS, deep), "", *_table("hidden messages", HIDDEN, held)]


async def measure_in_turn(
    server: Server, queues: Sequence[tuple[int, int]], cycles: int, seed: int
) -> list[DepthFigures]:
    """Each queue has so many visible and hidden messages."""
    sides: list[Side] = []
    for visible, hidden in queues:
        filler = QueueFiller(await open_client(server, FILLERS, seed), KINDS[0], visible + hidden)
        await filler.fill(f"{visible}-{hidden}", visible + hidden, hidden)
        sides.append(Side(visible, filler.client, filler.cycle))
        print(f"filled: {visible:,} visible, {hidden:,} hidden", flush=True)
    return await compare(sides, cycles)


def _table(title: str, at: Sequence[int], curve: Sequence[DepthFigures]) -> list[str]:
    header = (f"mean ms at {title} of", *[f"{n:,}" for n in at], "last : first", "bar")
    return table(header, rows(curve, BAR, digits=2))
