"""The section `isolation`: whether failing endpoints delay healthy ones, and the outcome of every message.

    python -m lab.bench.sections.isolation [--seconds 60] [--rate 500] [--topics 1000] [--signed] [--seed 1]

prints the table at another size than `python -m lab.bench.run --only isolation`. Notifications are raw by default: a
signature takes 0.69 ms of CPU here, and signing a drained backlog beside the other work needs more than two cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from lab.bench.sections.dead_endpoints import RUNS, IsolationFigures, Size, failures, runs
from lab.harness.processes import ROOT
from lab.load.endpoints import SLOW_S
from lab.load.wire import LoadError
from lab.measure.figures import bar_cell

RATIO_BAR, DRAIN_BAR_S = 2.0, 120.0
FULL = Size()
QUICK = Size(rate=100, topics=40, seconds=3, retry_s=1, drain_s_max=60)


def quick(scratch: Path, seed: int) -> list[str]:
    """The failures of one small run with all kinds of failing endpoints."""
    found = runs(scratch, QUICK, seed, tuple(RUNS)[1:2], quiet_s=0)
    print("\n".join(lines(found, QUICK)))
    return failures(found)


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    return lines(runs(scratch, FULL, seed), FULL)


def lines(found: Sequence[IsolationFigures], size: Size) -> list[str]:
    calm_ms = found[0].p99_ms
    return [
        f"{size.rate:.0f} publishes a second of 1 KiB over {size.topics:,} topics, each with one HTTP endpoint of its"
        f" own, for {size.seconds:.0f} s, {'signed' if size.signed else 'raw'}. Slow is {SLOW_S:.0f} s. Times are"
        " those of the half of the topics whose endpoints stay healthy in all runs, from a publish's planned start to"
        " its arrival, including the lateness of the generator's own timers. At the end the failing ones recover.",
        "",
        "| run | healthy endpoints: p50, p99, max ms | p99 : first run's | bar | generator's lateness p99, ms |"
        " backlog at recovery | drained after, s | bar |",
        "|---|---|---|---|---|---|---|---|",
        *[_healthy(one, calm_ms) for one in found],
        "",
        "| run | accepted | delivered | dead-lettered | dropped (counted) | **lost** | topics with losses |"
        " duplicates | misdelivered |",
        "|---|---|---|---|---|---|---|---|---|",
        *[_ended(one) for one in found],
        "",
        "| run | process | resident MiB: before, half-way, peak, after draining |",
        "|---|---|---|",
        *[row for one in found for row in _resident(one)],
        "",
        "| run | CPU of one core while publishing: service, endpoints, generator | others' CPU |",
        "|---|---|---|",
        *[f"| {one.run} | {one.cpu.text} | {one.cpu.others_share:.0%} |" for one in found],
    ]


def _healthy(one: IsolationFigures, calm_ms: float) -> str:
    ratio, bar, drain_bar = one.p99_ms / max(calm_ms, 0.001), "", ""
    if RUNS[one.run]:
        bar = bar_cell(f"≤ {RATIO_BAR:.0f}", met=ratio <= RATIO_BAR)
        drain_bar = bar_cell(f"≤ {DRAIN_BAR_S:.0f}", met=one.drained_s is not None and one.drained_s <= DRAIN_BAR_S)
    drained = "not drained" if one.drained_s is None else f"{one.drained_s:.1f}"
    return (
        f"| {one.run} | {one.p50_ms:,.1f}, **{one.p99_ms:,.1f}**, {one.max_ms:,.1f} |"
        f" **{ratio:.2f}** | {bar} | {one.late_p99_ms} | {one.backlog:,} | **{drained}** |"
        f" {drain_bar} |"
    )


def _ended(one: IsolationFigures) -> str:
    if one.outcomes is None:
        raise LoadError("the messages of a run were not accounted for")
    outcomes = one.outcomes
    return (
        f"| {one.run} | {outcomes.accepted:,} | {outcomes.delivered:,} | {outcomes.dead_lettered:,} |"
        f" {outcomes.dropped:,} | **{sum(outcomes.lost.values()):,}** | {len(outcomes.lost)} |"
        f" {outcomes.repeated:,} | {outcomes.misdelivered} |"
    )


def _resident(one: IsolationFigures) -> list[str]:
    return [
        f"| {one.run} | {name} | {at.start:.0f}, {at.middle:.0f}, **{at.peak:.0f}**, {at.end:.0f} |"
        for name, at in one.memory.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=FULL.rate)
    parser.add_argument("--topics", type=int, default=FULL.topics)
    parser.add_argument("--retry", type=int, default=0, help="seconds between attempts [default: the service's policy]")
    parser.add_argument("--signed", action="store_true")
    parser.add_argument("--only", type=int, help="the first N runs alone")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    size = Size(
        rate=options.rate,
        topics=options.topics,
        seconds=options.seconds,
        signed=options.signed,
        retry_s=options.retry,
    )
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="isolation-", dir=ROOT / "build") as scratch:
        found = runs(Path(scratch), size, options.seed, tuple(islice(RUNS, options.only)))
    print("\n".join(lines(found, size)))
    return 1 if failures(found) else 0


if __name__ == "__main__":
    sys.exit(main())
