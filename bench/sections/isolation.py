"""The section `isolation`: whether endpoints that are dead hold up those that are well, and how all messages ended.

    python -m bench.sections.isolation [--seconds 60] [--rate 500] [--topics 1000] [--signed] [--seed 1]

prints the table at another size than `python -m bench.run --only isolation`. Notifications are raw unless told
otherwise: a signature takes 0.69 ms of CPU here, and those of a backlog with the rest of it more than two cores have.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bench.load.endpoints import SLOW_S
from bench.load.wire import LoadError
from bench.measure.processes import ROOT
from bench.sections.dead_endpoints import RUNS, IsolationFigures, Size, failures, runs

RATIO_BAR, DRAIN_BAR_S = 2.0, 120.0
FULL = Size()
QUICK = Size(rate=100, topics=40, seconds=3, retry_s=1, drain_s_max=60)


def quick(scratch: Path, seed: int) -> list[str]:
    """What is wrong after one small run with all kinds of dead."""
    found = runs(scratch, QUICK, seed, tuple(RUNS)[1:2], quiet_s=0)
    print("\n".join(lines(found, QUICK)))
    return failures(found)


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    return lines(runs(scratch, FULL, seed), FULL)


def lines(found: Sequence[IsolationFigures], size: Size) -> list[str]:
    calm_ms = found[0].p99_ms
    return [
        f"{size.rate:.0f} publishes a second of 1 KiB over {size.topics:,} topics, each with one HTTP endpoint of its"
        f" own, for {size.seconds:.0f} s, {'signed' if size.signed else 'raw'}. Slow is {SLOW_S:.0f} s. Times are of"
        " the same half of the topics in all runs, whose endpoints are well, from when a publish was planned to its"
        " arrival; our own timers' lateness is in them. Then the dead come back.",
        "",
        "| run | healthy: p50, p99, longest, ms | p99 : none dead's | bar | our lateness p99, ms | backlog when they"
        " come back | drained after, s | bar |",
        "|---|---|---|---|---|---|---|---|",
        *[_healthy(one, calm_ms) for one in found],
        "",
        "| run | accepted | delivered | dead-lettered | dropped and counted | **lost** | in so many topics | repeated |"
        " strayed |",
        "|---|---|---|---|---|---|---|---|---|",
        *[_ended(one) for one in found],
        "",
        "| run | process | resident MiB: before, in the middle, at most, when drained |",
        "|---|---|---|",
        *[row for one in found for row in _resident(one)],
        "",
        "| run | CPU of one core while publishing: service, endpoints, generator | others' CPU |",
        "|---|---|---|",
        *[f"| {one.run} | {one.cpu.text} | {one.cpu.others_share:.0%} |" for one in found],
    ]


def _healthy(one: IsolationFigures, calm_ms: float) -> str:
    bar, drain_bar = (f"≤ {RATIO_BAR:.0f}", f"≤ {DRAIN_BAR_S:.0f}") if RUNS[one.run] else ("", "")
    drained = "not drained" if one.drained_s is None else f"{one.drained_s:.1f}"
    return (
        f"| {one.run} | {one.p50_ms:,.1f}, **{one.p99_ms:,.1f}**, {one.max_ms:,.1f} |"
        f" **{one.p99_ms / max(calm_ms, 0.001):.2f}** | {bar} | {one.late_p99_ms} | {one.backlog:,} | **{drained}** |"
        f" {drain_bar} |"
    )


def _ended(one: IsolationFigures) -> str:
    if one.ends is None:
        raise LoadError("the messages of a run were not accounted for")
    ends = one.ends
    return (
        f"| {one.run} | {ends.accepted:,} | {ends.delivered:,} | {ends.dead_lettered:,} | {ends.dropped:,} |"
        f" **{sum(ends.lost.values()):,}** | {len(ends.lost)} | {ends.repeated:,} | {ends.strayed} |"
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
