"""Measures all engines in turn, and makes the tables and plots of the section."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

from bench.engines import contention, deletes, depth, partitions, rates
from bench.engines.sides import Side, sides
from bench.measure.processes import ROOT
from bench.order.figures import Row, figures
from bench.order.workload import Experiment, Load
from bench.sections.drawing import draw

DOCS = ROOT / "docs"
CONTENTION_DRAWING, DELETES_DRAWING = "engines-contention.svg", "engines-deletes.svg"


class Size(NamedTuple):
    """The amount of work, and the limits of its time."""

    rates: Mapping[int, int] = {1: 100, 64: 500}  # messages by connections
    ordered: int = 300
    spread: int = 2_000
    depth: int = 1_000_000
    fill_s: float = 15.0
    """Of the deep queue of each engine: the table shows the depth reached. It bounds the section to ten minutes."""
    cycles: int = 40
    parallels: Sequence[int] = (1, 4, 16, 64)
    contention_s: float = 3.0
    stops: Sequence[int] = (100, 1_000, 3_000)  # deletes
    deletes_fill_s: float = 15.0


FULL = Size()
QUICK = Size(
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
    """By engine."""

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


def measure(scratch: Path, seed: int, size: Size, only: Iterable[str] = ()) -> Found:
    found = Found()
    with sides(scratch) as all_sides:
        for name, side in all_sides.items():
            if not only or name in only:
                asyncio.run(_measure(side, size, seed, found))
    return found


async def _measure(side: Side, size: Size, seed: int, found: Found) -> None:
    began_s = perf_counter()

    def say(what: str) -> None:
        print(f"{side.engine}: {what}, {perf_counter() - began_s:.0f} s", file=sys.stderr, flush=True)

    name = side.engine
    found.rates[name] = await rates.rates(side, dict(size.rates), seed)
    say("rates")
    found.order[name] = await _order(side, size.ordered, seed)
    say("order")
    found.partitions[name] = await partitions.partitions(side, size.spread, seed)
    say("partitions")
    found.contention[name] = {n: await contention.contention(side, n, size.contention_s, seed) for n in size.parallels}
    say("contention")
    found.deletes[name] = await deletes.receive_times(side, size.stops, size.deletes_fill_s, seed)
    found.tombstones[name] = deletes.tombstones(side)
    say("deletes")
    found.depth[name] = await depth.by_depth(side, size.depth, size.fill_s, size.cycles, seed)
    say("depth")


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
    shown = {name: ["", f"![{name}](curves/{name})"] if draw_into else [] for name in drawings}
    return [
        *rates.table(found.rates),
        "",
        *_faithfulness(found, size),
        "",
        "Producers and consumers of one queue at the same time, over 2 API processes (`embedded`, `naive`: 1), for"
        f" {size.contention_s:g} s each. Taken: received and deleted.",
        "",
        *contention.table(found.contention, size.parallels),
        *shown.get(CONTENTION_DRAWING, []),
        "",
        *deletes.table(found.deletes, size.stops, found.tombstones),
        *shown.get(DELETES_DRAWING, []),
        "",
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
    made = {
        CONTENTION_DRAWING: draw("Messages taken a second, relative to 1 × 1, by producers", size.parallels, taken, 1.0)
    }
    if times:
        made[DELETES_DRAWING] = draw("Time of a receive by messages deleted before", size.stops, times, 1.0)
    return made
