"""The section `compare`: ours and other programs with these APIs, in rounds that take turns, by one driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import uvloop

from lab.bench.compare import kept, pressure, rates
from lab.bench.compare.rates import Load, Result
from lab.bench.compare.sides import Side, chosen
from lab.bench.compare.tables import DRAWING, TITLE, Measured, bars, lines
from lab.bench.drawing import draw_rates
from lab.bench.page import DOCS
from lab.bench.servers import QUIET_S_MAX
from lab.harness.usage import await_quiet
from lab.load.wire import LoadError


class Size(NamedTuple):
    warm: Load
    """Each server does this before it is measured, so that a compiler that learns from running has run."""
    loads: Sequence[Load]
    pressure: pressure.Size
    kept: int
    quiet_s: float


FULL = Size(
    warm=Load(
        connections=16,
        sends=10_000,
        pairs=5_000,
        drained=10_000,
        publishes=500,
        fanned=50,
        wakes=10,
        seconds_max=4.0,
    ),
    loads=(
        Load(connections=64, sends=20_000, pairs=10_000, drained=20_000, publishes=4_000, fanned=500, wakes=200),
        Load(
            connections=1,
            sends=3_000,
            pairs=1_500,
            drained=5_000,
            publishes=1_000,
            fanned=150,
            wakes=200,
            lone_cycles=1_000,
        ),
    ),
    pressure=pressure.Size(cycles=6_000, backlog=50_000, in_flight=10_000, deleted=1_000_000),
    kept=2_000,
    quiet_s=QUIET_S_MAX,
)
QUICK = Size(
    warm=Load(connections=2, sends=20, pairs=10, drained=20, publishes=4, fanned=1, wakes=2),
    loads=(
        Load(connections=8, sends=200, pairs=100, drained=200, publishes=40, fanned=8, wakes=10),
        Load(connections=1, sends=50, pairs=25, drained=50, publishes=10, fanned=2, wakes=10, lone_cycles=20),
    ),
    pressure=pressure.Size(cycles=100, backlog=500, in_flight=200, deleted=2_000, delete_s_max=20.0),
    kept=100,
    quiet_s=0,
)


def section(scratch: Path, n: int, seed: int) -> list[str]:
    sides, absent = chosen(scratch)
    measured = interleaved(sides, scratch, n, seed, FULL)
    (DOCS / DRAWING).write_text(draw_rates(TITLE, bars(measured, FULL.loads[0].connections)))
    return lines(measured, absent, FULL.loads, FULL.pressure)


def quick(scratch: Path, seed: int) -> list[str]:
    """Every part at a size that takes seconds."""
    sides, absent = chosen(scratch)
    measured = interleaved(sides, scratch, 1, seed, QUICK)
    return lines(measured, absent, QUICK.loads, QUICK.pressure)


def interleaved(sides: Sequence[Side], scratch: Path, n: int, seed: int, size: Size) -> list[Measured]:
    """Rates in `n` rounds, in which the sides take turns on fresh data; then pressure and `kill -9`, once each."""
    measured = [Measured(side) for side in sides]
    for number in range(n):
        for place, one in enumerate(measured):
            with one.side.running(scratch / f"rates-{place}-{number}") as server:
                await_quiet(size.quiet_s)
                uvloop.run(rates.measure(server, one.side, size.warm, seed))
                for load in size.loads:
                    for name, result in uvloop.run(rates.measure(server, one.side, load, seed + number)).items():
                        one.runs[load.connections, name].append(result)
                        print(f"{one.side.name}, {load.connections}: {_shown(name, result)}", flush=True)
    for place, one in enumerate(measured):
        data = scratch / f"pressure-{place}"
        with one.side.running(data) as server:
            await_quiet(size.quiet_s)
            one.cells = uvloop.run(pressure.measure(server, one.side, size.pressure, data, seed))
        print(f"{one.side.name}: {one.cells}", flush=True)
        try:
            one.kept = kept.measure(one.side, scratch / f"kept-{place}", size.kept, seed)
        except (LoadError, AssertionError, OSError) as error:
            one.kept = f"{error}".splitlines()[0]
        print(f"{one.side.name}: {one.kept}", flush=True)
    return measured


def _shown(name: str, result: Result) -> str:
    return f"{name}: {result}" if isinstance(result, str) else f"{name}: {result.per_s:,.0f}/s, {result.p50_ms} ms"
