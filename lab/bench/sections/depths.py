"""The section `depths`: times of operations on queues of the cluster form by their depth, and by hidden messages.

One API process on Cassandra and Redis. All queues exist at the same time and are measured in turn, one call at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import uvloop

from lab.bench.sections.cluster import SERVICE, SIDES
from lab.bench.sections.curves import BAR
from lab.bench.sections.depth import FILLERS, KINDS, DepthFigures, QueueFiller, Side, compare, rows
from lab.bench.servers import service
from lab.bench.site import environment_of, store
from lab.bench.tables import table
from lab.harness.server import Server
from lab.load.queues import open_client

DEPTHS = (1_000, 100_000, 1_000_000)
HIDDEN = (0, 10_000, 100_000)
SHALLOW = 1_000
"""Visible messages of a queue with hidden ones."""
CYCLES = 300


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    with store() as place, service(scratch, environment_of(place), SIDES[SERVICE]) as server:
        deep = uvloop.run(measure(server, [(depth, 0) for depth in DEPTHS], CYCLES, seed))
        held = uvloop.run(measure(server, [(SHALLOW, hidden) for hidden in HIDDEN], CYCLES, seed))
    return [*_table("a depth", DEPTHS, deep), "", *_table("hidden messages", HIDDEN, held)]


async def measure(server: Server, queues: Sequence[tuple[int, int]], cycles: int, seed: int) -> list[DepthFigures]:
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
