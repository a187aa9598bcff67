"""Measures all engines in turn, and makes the tables and plots of the section."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

from lab.bench.drawing import draw
from lab.bench.engines import contention, deletes, partitions, rates
from lab.bench.engines.sides import Side, sides
from lab.bench.order.figures import Row, figures
from lab.bench.order.workload import Experiment, Load
from lab.bench.page import DOCS
from lab.bench.tables import table
from lab.load import workloads

WARM_LANES = 8
CONTENTION_DRAWING, DELETES_DRAWING = "engines-contention.svg", "engines-deletes.svg"


class Size(NamedTuple):
    """The amount of work, and the limits of its time."""

    rates: Mapping[int, int] = {1: 100, 64: 500}  # messages by connections
    warm_up: int = 300  # cycles of each engine
    ordered: int = 300
    spread: int = 2_000
    parallels: Sequence[int] = (1, 4, 16, 64)
    contention_s: float = 3.0
    stops: Sequence[int] = (100, 1_000, 3_000)  # deletes
    deletes_fill_s: float = 15.0


FULL = Size()
QUICK = Size(
    warm_up=20,
    rates={1: 10, 64: 64},
    ordered=40,
    spread=100,
    parallels=(1, 16),
    contention_s=0.5,
    stops=(20, 100),
    deletes_fill_s=2.0,
)


@dataclass(slots=True)
class Found:
    """The results by engine."""

    rates: dict[str, rates.Found] = field(default_factory=dict)
    order: dict[str, Row] = field(default_factory=dict)
    partitions: dict[str, list[partitions.Partition]] = field(default_factory=dict)
    contention: dict[str, dict[int, contention.Contention]] = field(default_factory=dict)
    deletes: dict[str, dict[int, float]] = field(default_factory=dict)
    tombstones: dict[str, tuple[float, float]] = field(default_factory=dict)


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    """Measured once however many runs are asked for."""
    return lines(measure(scratch, seed, FULL), FULL, draw_into=DOCS / "curves")


def quick(scratch: Path, seed: int) -> list[str]:
    return lines(measure(scratch, seed, QUICK), QUICK, draw_into=None)


def measure(scratch: Path, seed: int, size: Size) -> Found:
    found = Found()
    with sides(scratch) as measured:
        for side in measured:
            asyncio.run(_warm_up(side, size, seed))
        for side in measured:
            asyncio.run(_measure(side, size, seed, found))
    return found


async def _warm_up(side: Side, size: Size, seed: int) -> None:
    """Cassandra compiles what it runs often: without this the first engine would pay for the others."""
    client = await side.client(WARM_LANES, seed, "warm")
    await workloads.cycles(client, size.warm_up)
    client.close()


async def _measure(side: Side, size: Size, seed: int, found: Found) -> None:
    name, began_s = side.engine, perf_counter()
    found.rates[name] = await rates.rates(side, size.rates, seed)
    found.order[name] = await _order(side, size.ordered, seed)
    found.partitions[name] = await partitions.partitions(side, size.spread, seed)
    found.contention[name] = {n: await contention.contention(side, n, size.contention_s, seed) for n in size.parallels}
    found.deletes[name] = await deletes.receive_times(side, size.stops, size.deletes_fill_s, seed)
    found.tombstones[name] = deletes.tombstones(side)
    print(f"{name}: {perf_counter() - began_s:.0f} s", file=sys.stderr, flush=True)


async def _order(side: Side, messages: int, seed: int) -> Row:
    """Four senders, then four receivers, of one queue over all processes."""
    load = Load(
        name=f"{side.engine}-order",
        queues=1,
        senders=4,
        receivers=4,
        messages=messages // 4,
        visibility_s=600,
        attributes=side.attributes,
    )
    experiment = Experiment(load, (side.site.caller(),) * 2, Random(seed))
    await experiment.create_queues()
    await experiment.send_all()
    await experiment.receive_all()
    experiment.close()
    return figures(load, experiment.record)


# -- tables -----------------------------------------------------------------------------------------------------------


def lines(found: Found, size: Size, draw_into: Path | None) -> list[str]:
    """The tables; `draw_into` is the directory of the plots."""
    shown: dict[str, list[str]] = {}
    for name, drawing in _drawings(found, size).items() if draw_into else ():
        assert draw_into is not None
        (draw_into / name).write_text(drawing)
        shown[name] = ["", f"![{name}](curves/{name})"]
    return [
        *rates.lines(found.rates),
        "",
        *_faithfulness(found, size),
        "",
        "Producers and consumers of one queue at the same time, over 2 API processes (`embedded`, `naive`: 1), for"
        f" {size.contention_s:g} s each. Taken: received and deleted.",
        "",
        *contention.lines(found.contention, size.parallels),
        *shown.get(CONTENTION_DRAWING, []),
        "",
        *deletes.lines(found.deletes, size.stops, found.tombstones),
        *shown.get(DELETES_DRAWING, []),
    ]


def _faithfulness(found: Found, size: Size) -> list[str]:
    ring = f"{partitions.NODES} nodes, {partitions.COPIES} copies"
    rows = [
        (
            f"`{engine}`",
            f"{row['loss rate ε']:.2%}",
            f"{row['duplication rate λ']:.2%}",
            f"{row['out-of-order rate']:.1%}",
            f"{row['average displacement']:.2f}, {row['largest displacement']:.0f}",
            *partitions.cells(found.partitions[engine]),
        )
        for engine, row in found.order.items()
    ]
    header = (
        *("engine", "lost", "duplicates", "out of order", "displacement: average, largest"),
        *(f"partitions of {size.spread:,} messages", "rows of the largest", f"of {ring}: nodes used"),
        "share of the busiest",
    )
    return table(header, rows)


def _drawings(found: Found, size: Size) -> dict[str, str]:
    """A plot needs all its points for all engines."""
    taken = {name: [max(by[n].taken_per_s, 0.1) for n in size.parallels] for name, by in found.contention.items()}
    times = {name: list(by.values()) for name, by in found.deletes.items() if len(by) == len(size.stops)}
    title = "Messages taken a second, relative to 1 × 1, by producers"
    made = {CONTENTION_DRAWING: draw(title, size.parallels, taken, 1.0)}
    if times:
        made[DELETES_DRAWING] = draw("Time of a receive by messages deleted before", size.stops, times, 1.0)
    return made
