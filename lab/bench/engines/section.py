"""Measures all engines in turn, and makes the tables and plots of the section."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

from lab.bench.engines import contention, deletes, depth, partitions, rates
from lab.bench.engines.sides import Side, sides
from lab.bench.order.figures import Row, figures
from lab.bench.order.workload import Experiment, Load
from lab.bench.sections.drawing import draw
from lab.harness.processes import ROOT
from lab.load import single_calls

DOCS = ROOT / "docs"
WARM_LANES = 8
CONTENTION_DRAWING, DELETES_DRAWING = "engines-contention.svg", "engines-deletes.svg"


class Size(NamedTuple):
    """The amount of work, and the limits of its time."""

    rates: Mapping[int, int] = {1: 100, 64: 500}  # messages by connections
    warm_up: int = 300  # cycles of each engine
    ordered: int = 300
    spread: int = 2_000
    depth: int = 1_000_000
    fill_s: float = 15.0
    """How long the deep queue of each engine is filled: the table shows the depth reached. It bounds the section to ten
    minutes."""
    cycles: int = 40
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
    depth=20_000,
    fill_s=1.0,
    cycles=5,
    parallels=(1, 16),
    contention_s=0.5,
    stops=(20, 100),
    deletes_fill_s=2.0,
)


@dataclass(slots=True)
class Found:
    """The results by engine."""

    rates: dict[str, dict[tuple[int, str], rates.Rates]] = field(default_factory=dict)
    order: dict[str, Row] = field(default_factory=dict)
    partitions: dict[str, list[partitions.Partition]] = field(default_factory=dict)
    contention: dict[str, dict[int, contention.Contention]] = field(default_factory=dict)
    deletes: dict[str, dict[int, float]] = field(default_factory=dict)
    tombstones: dict[str, tuple[float, float]] = field(default_factory=dict)
    depth: dict[str, depth.Depths] = field(default_factory=dict)


def table(scratch: Path, n: int, seed: int) -> list[str]:
    """The section of `make bench`, measured once however many runs are asked for: its limit is ten minutes."""
    del n
    return lines(measure(scratch, seed, FULL), FULL, draw_into=DOCS / "curves")


def quick(scratch: Path, seed: int) -> list[str]:
    return lines(measure(scratch, seed, QUICK), QUICK, draw_into=None)


def measure(scratch: Path, seed: int, size: Size, only: Collection[str] = (), parts: Collection[str] = ()) -> Found:
    """Measure the engines `only`, and these parts; empty: all."""
    found = Found()
    with sides(scratch) as all_sides:
        measured = {name: side for name, side in all_sides.items() if not only or name in only}
        for side in measured.values():
            asyncio.run(_warm_up(side, size, seed))
        for side in measured.values():
            asyncio.run(_measure(side, size, seed, found, parts or PARTS))
    return found


async def _warm_up(side: Side, size: Size, seed: int) -> None:
    """Cassandra compiles what it runs often: without this the first engine would pay for the others."""
    client = await side.client(WARM_LANES, seed, "warm")
    await single_calls.cycles(client, size.warm_up)
    client.close()


async def _measure(side: Side, size: Size, seed: int, found: Found, parts: Collection[str]) -> None:
    name, began_s = side.engine, perf_counter()
    for part, measure_part in PARTS.items():
        if part in parts:
            await measure_part(side, size, seed, found)
            print(f"{name}: {part}, {perf_counter() - began_s:.0f} s", file=sys.stderr, flush=True)


async def _rates(side: Side, size: Size, seed: int, found: Found) -> None:
    found.rates[side.engine] = await rates.rates(side, dict(size.rates), seed)


async def _faithful(side: Side, size: Size, seed: int, found: Found) -> None:
    found.order[side.engine] = await _order(side, size.ordered, seed)
    found.partitions[side.engine] = await partitions.partitions(side, size.spread, seed)


async def _contention(side: Side, size: Size, seed: int, found: Found) -> None:
    of_side = {n: await contention.contention(side, n, size.contention_s, seed) for n in size.parallels}
    found.contention[side.engine] = of_side


async def _deletes(side: Side, size: Size, seed: int, found: Found) -> None:
    found.deletes[side.engine] = await deletes.receive_times(side, size.stops, size.deletes_fill_s, seed)
    found.tombstones[side.engine] = deletes.tombstones(side)


async def _depth(side: Side, size: Size, seed: int, found: Found) -> None:
    found.depth[side.engine] = await depth.by_depth(side, size.depth, size.fill_s, size.cycles, seed)


PARTS: Mapping[str, Callable[[Side, Size, int, Found], Awaitable[None]]] = {
    "rates": _rates,
    "order": _faithful,
    "contention": _contention,
    "deletes": _deletes,
    "depth": _depth,
}
"""In the order of their tables."""


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
    experiment = Experiment(load, side.caller(), Random(seed))
    await experiment.create_queues()
    await experiment.send_all()
    await experiment.receive_all()
    experiment.close()
    return figures(load, experiment.measured)


# -- tables -----------------------------------------------------------------------------------------------------------


def lines(found: Found, size: Size, draw_into: Path | None) -> list[str]:
    """The tables of what was measured; `draw_into` is the directory of the plots."""
    drawings = _drawings(found, size)
    if draw_into is not None:
        for name, drawing in drawings.items():
            (draw_into / name).write_text(drawing)
    shown = {name: ["", f"![{name}](curves/{name})"] for name in drawings if draw_into}
    tables = [
        rates.table(found.rates) if found.rates else [],
        _faithfulness(found, size) if found.order else [],
        _contention_table(found, size) + shown.get(CONTENTION_DRAWING, []) if found.contention else [],
        deletes.table(found.deletes, size.stops, found.tombstones) + shown.get(DELETES_DRAWING, [])
        if found.deletes
        else [],
        _depth_table(found, size) if found.depth else [],
    ]
    return [line for of_part in tables if of_part for line in (*of_part, "")][:-1]


def _contention_table(found: Found, size: Size) -> list[str]:
    return [
        "Producers and consumers of one queue at the same time, over 2 API processes (`embedded`, `naive`: 1), for"
        f" {size.contention_s:g} s each. Taken: received and deleted.",
        "",
        *contention.table(found.contention, size.parallels),
    ]


def _depth_table(found: Found, size: Size) -> list[str]:
    return [
        f"A queue is filled with messages of 100 bytes up to {size.depth:,}, or for {size.fill_s:g} s:",
        "",
        *depth.table(found.depth),
    ]


def _faithfulness(found: Found, size: Size) -> list[str]:
    ring = f"{partitions.NODES} nodes, {partitions.COPIES} copies"
    rows = [
        f"| engine | lost | duplicates | out of order | displacement: average, largest | partitions of {size.spread:,}"
        f" messages | rows of the largest | of {ring}: nodes used | share of the busiest |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for engine, row in found.order.items():
        spread = partitions.cells(found.partitions[engine])
        rows.append(
            f"| `{engine}` | {row['loss rate ε']:.2%} | {row['duplication rate λ']:.2%} |"
            f" {row['out-of-order rate']:.1%} | {row['average displacement']:.2f}, {row['largest displacement']:.0f} |"
            f" {' | '.join(spread.values())} |"
        )
    return rows


def _drawings(found: Found, size: Size) -> dict[str, str]:
    """A plot needs all its points for all engines."""
    taken = {name: [max(by[n].taken_per_s, 0.1) for n in size.parallels] for name, by in found.contention.items()}
    times = {name: list(by.values()) for name, by in found.deletes.items() if len(by) == len(size.stops)}
    made: dict[str, str] = {}
    if taken:
        title = "Messages taken a second, relative to 1 × 1, by producers"
        made[CONTENTION_DRAWING] = draw(title, size.parallels, taken, 1.0)
    if times:
        made[DELETES_DRAWING] = draw("Time of a receive by messages deleted before", size.stops, times, 1.0)
    return made
