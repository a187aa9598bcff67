"""`make bench`: the service against the bare floor in interleaved runs; the tables go into docs/performance.md.

python -m lab.bench.run [--runs 5] [--seed 1] [--date YYYY-MM-DD] [--quick] [--ring] [--only SECTION]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import uvloop

from lab.bench.engines import section as engines
from lab.bench.sections import (
    cluster,
    curves,
    fairness,
    fanout,
    groups,
    isolation,
    long_run,
    ring_work,
    seed000,
    start,
    waiting,
    wide,
)
from lab.bench.sections.overview import PAGE, refresh, with_section
from lab.bench.sections.profiles import profile
from lab.bench.sections.runs import (
    FLOOR,
    FULL,
    QUICK,
    QUIET_S_MAX,
    SERVICE,
    TOPOLOGIES,
    publish_workloads,
    queue_workloads,
    served,
    topology_runs,
)
from lab.harness.usage import await_quiet
from lab.load import polls
from lab.load.single_calls import OPERATIONS
from lab.measure.figures import Figures, bar_cell, median_run

SCRATCH = PAGE.parents[1] / "build"
"""On the project's disk: the system's temporary directory may be in memory, where an fsync costs nothing."""
PROFILES = PAGE.parent / "profiles"
IDLE_POLLS = 10_000
BARS = {"send": 0.5, "receive + delete": 0.5, "batch send": 0.5, "batch receive + delete": 0.5}
SIDES = ("floor", "service")
RING, SEED_RING, RING_WORK, LONG = "ring", "seed000-ring", "ring-work", "long"
ON_REQUEST = (RING, SEED_RING, RING_WORK, LONG)
"""These sections run only when they are asked for: three Cassandra nodes need much memory, 2,000,000 messages half an
hour."""
WAKE_BAR = 1.4


class Bar(NamedTuple):
    """The limits of a workload of `publish`; 0: no limit."""

    per_s: int = 0
    p50_ms: int = 0
    p99_ms: int = 0
    cpu_s: float = 0  # per 1,000 messages, including the store's

    def is_met(self, figures: Figures) -> bool:
        least, most = figures.per_s >= self.per_s, ((self.p50_ms, figures.p50_ms), (self.p99_ms, figures.p99_ms))
        return least and all(not bar or ms <= bar for bar, ms in (*most, (self.cpu_s, figures.server_us / 1000)))

    def __str__(self) -> str:
        parts = {
            f"≥ {self.per_s:,}/s": self.per_s,
            f"p50 ≤ {self.p50_ms}": self.p50_ms,
            f"p99 ≤ {self.p99_ms}": self.p99_ms,
            f"≤ {self.cpu_s} CPU s per 1,000": self.cpu_s,
        }
        return ", ".join(part for part, bar in parts.items() if bar)


PUBLISH_BARS = {
    "publish → HTTP, signed": Bar(per_s=1_200, cpu_s=0.9),
    "… at half load, signed": Bar(p99_ms=50),
    "… idle (25/s), signed": Bar(p50_ms=4),
    "publish → HTTP, raw": Bar(per_s=2_500, cpu_s=0.5),
    "… at half load, raw": Bar(p99_ms=50),
    "… idle (25/s), raw": Bar(p50_ms=4),
    "publish → 1 SQS": Bar(per_s=2_500),
    "publish → 10 SQS": Bar(per_s=12_000),
}
SANE_CPU_RATIO = 6.0
"""Limit of a quick run, which tests that the harness and the service work. It compares CPU times, since on a busy
machine a server that uses two cores loses more time than one that uses one."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--date", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--ring", action="store_const", const=RING, help="the cluster form on a ring of three nodes as well"
    )
    parser.add_argument("--only", choices=SECTIONS)
    parser.add_argument("--profile", dest="only", action="store_const", const="profiles", help="--only profiles")
    options = parser.parse_args()
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=SCRATCH) as scratch:
        if options.quick and options.only in QUICK_SECTIONS:
            print("\n".join(QUICK_SECTIONS[options.only](Path(scratch), options.seed)))
            return 0
        if options.quick:
            return quick(Path(scratch), options.seed)
        for name, table in SECTIONS.items():
            if name == options.only or (options.only is None and (name not in ON_REQUEST or name == options.ring)):
                write(name, table(Path(scratch), options.runs, options.seed), options)
    return 0


def quick(scratch: Path, seed: int) -> int:
    """One small run of the main sections; fails if a workload is absurdly slow or wrong."""
    runs = interleave(scratch, 1, seed, quick_run=True)
    table = queue_table(runs)
    print("\n".join(table))
    with served("service", SERVICE, scratch / "publish") as server:
        print("\n".join(publish_table([uvloop.run(publish_workloads(server, QUICK, seed))])))
    slow = [workload for workload in BARS if cpu_ratio(runs, workload) > SANE_CPU_RATIO]
    wrong = {"isolation": isolation.quick(scratch, seed), "fan-out": fanout.quick(scratch, seed)}
    bad = [f"{name} ({'; '.join(whys)})" for name, whys in wrong.items() if whys]
    failures = [*slow, *bad, *cluster.quick(scratch / "cluster", seed)]
    failed, total = len(failures), len(BARS) + len(wrong) + len(OPERATIONS)
    print(f"workloads: {total - failed} passed, {failed} failed{': ' if failed else ''}{', '.join(failures)}")
    return 1 if failed else 0


# -- tables -----------------------------------------------------------------------------------------------------------

Runs = dict[tuple[str, str], list[Figures]]
"""By (workload, server)."""


def interleave(scratch: Path, n: int, seed: int, *, quick_run: bool = False) -> Runs:
    runs: Runs = defaultdict(list)
    for number in range(n):
        for name, command in (("floor", FLOOR), ("service", SERVICE)):
            with served(name, command, scratch / f"{name}-{number}") as server:
                await_quiet(0 if quick_run else QUIET_S_MAX)
                for figures in uvloop.run(queue_workloads(server, QUICK if quick_run else FULL, seed + number)):
                    print(figures, flush=True)
                    runs[(figures.workload.partition(",")[0], name)].append(figures)
    return runs


def ratio(runs: Runs, workload: str) -> float:
    return median_run(runs[(workload, "service")]).per_s / median_run(runs[(workload, "floor")]).per_s


def cpu_ratio(runs: Runs, workload: str) -> float:
    floor, service = (median_run(runs[(workload, name)]).server_us for name in SIDES)
    return service / floor


def queues(scratch: Path, n: int, seed: int) -> list[str]:
    return queue_table(interleave(scratch, n, seed))


def queue_table(runs: Runs) -> list[str]:
    lines = [
        "| workload | floor/s | service/s | ratio | bar | CPU µs: floor, service, client | CPU ratio, floor : service |"
        " p50, p99 ms | others' CPU |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for workload, bar in BARS.items():
        floor, service = median_run(runs[(workload, "floor")]), median_run(runs[(workload, "service")])
        others = max(floor.others_share, service.others_share)
        reached = ratio(runs, workload)
        lines.append(
            f"| {workload} | {floor.per_s:,.0f} | {service.per_s:,.0f} | **{reached:.2f}** |"
            f" {bar_cell(f'≥ {bar}', met=reached >= bar)} |"
            f" {floor.server_us:.0f}, {service.server_us:.0f}, {service.generator_us:.0f} |"
            f" {1 / cpu_ratio(runs, workload):.2f} | {service.p50_ms:.1f}, {service.p99_ms:.1f} | {others:.0%} |"
        )
    bare, p50 = (sorted([run.p50_ms for run in runs[("wake", name)]])[len(runs[("wake", name)]) // 2] for name in SIDES)
    p99 = median_run(runs[("wake", "service")]).p99_ms
    lines.append(
        f"| wake, p50 ms | {bare:.2f} | {p50:.2f} | **{p50 / bare:.2f}** |"
        f" {bar_cell(f'≤ {WAKE_BAR}', met=p50 / bare <= WAKE_BAR)} | | | {p50:.1f}, {p99:.1f} | |"
    )
    return lines


def topologies(scratch: Path, n: int, seed: int) -> list[str]:
    runs: Runs = defaultdict(list)
    for figures in topology_runs(scratch, n, FULL, seed):
        print(figures, flush=True)
        runs[(figures.workload, figures.server)].append(figures)
    lines = [
        "| workload | floor topology | per s | ratio | CPU µs: floor, client | p50, p99 ms | others' CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for (workload, name), same in sorted(runs.items(), key=lambda item: item[0][0], reverse=True):
        figures, one = median_run(same), median_run(runs[(workload, next(iter(TOPOLOGIES)))])
        lines.append(
            f"| {workload} | {name} | {figures.per_s:,.0f} | {figures.per_s / one.per_s:.2f} |"
            f" {figures.server_us:.0f}, {figures.generator_us:.0f} | {figures.p50_ms:.1f}, {figures.p99_ms:.1f} |"
            f" {figures.others_share:.0%} |"
        )
    return lines


def publish(scratch: Path, n: int, seed: int) -> list[str]:
    runs = []
    for number in range(n):
        with served("service", SERVICE, scratch / f"publish-{number}") as server:
            runs.append(uvloop.run(publish_workloads(server, FULL, seed + number)))
    return publish_table(runs)


def publish_table(runs: list[list[Figures]]) -> list[str]:
    lines = [
        "| workload | messages/s | p50, p99 ms | CPU µs: service, generator | bar | | others' CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for same in zip(*runs, strict=True):
        figures = median_run(same)
        bar = PUBLISH_BARS[figures.workload]
        lines.append(
            f"| {figures.workload} | {figures.per_s:,.0f} | {figures.p50_ms:.1f}, {figures.p99_ms:.1f} |"
            f" {figures.server_us:.0f}, {figures.generator_us:.0f} | {bar} |"
            f" {'met' if bar.is_met(figures) else '**missed**'} | {figures.others_share:.0%} |"
        )
    return lines


def idle(scratch: Path, _n: int, _seed: int) -> list[str]:
    with served("service", SERVICE, scratch / "idle") as server:
        empty = uvloop.run(polls.idle(server, 1, 10.0))
        waiting = uvloop.run(polls.idle(server, IDLE_POLLS, 10.0))
    return [
        "| | CPU of one core | resident memory added |",
        "|---|---|---|",
        f"| idle service, one waiting poll | {empty.cpu_share:.1%} | |",
        f"| {IDLE_POLLS:,} waiting polls | {waiting.cpu_share:.1%} | {waiting.added_mib:.0f} MiB |",
    ]


def profiles(scratch: Path, _n: int, seed: int) -> list[str]:
    kept = profile(scratch, PROFILES, FULL, seed)
    return [f"- [{file.stem}]({file.relative_to(PAGE.parent)}): {file.read_text().splitlines()[1]}" for file in kept]


Table = Callable[[Path, int, int], list[str]]
"""Makes a section's lines from a directory, a number of runs and a seed."""

SECTIONS: dict[str, Table] = {
    "queues": queues,
    "topologies": topologies,
    "publish": publish,
    "fanout": fanout.table,
    "isolation": isolation.table,
    "curves": curves.table,
    "groups": groups.table,
    "fairness": fairness.table,
    "wide": wide.table,
    "idle": idle,
    "start": start.table,
    "waiting": waiting.table,
    "cluster": cluster.cluster_table,
    RING: cluster.ring_table,
    "seed000": seed000.table,
    SEED_RING: seed000.ring_table,
    RING_WORK: ring_work.table,
    "receivers": long_run.receivers_table,
    LONG: long_run.table,
    "engines": engines.table,
    "profiles": profiles,
}
QUICK_SECTIONS: dict[str, Callable[[Path, int], list[str]]] = {"engines": engines.quick}
"""Sections with a small form of their own: `--only engines --quick` prints it."""


# -- the page ---------------------------------------------------------------------------------------------------------


def write(name: str, table: list[str], options: argparse.Namespace) -> None:
    """Write the table between the markers of `name`, and update the page's first table and plot."""
    command = f"python -m lab.bench.run --only {name} --runs {options.runs} --seed {options.seed}"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    facts = (
        f"`{command}`, {options.date or 'undated'}, commit {commit.stdout.strip()}, {os.cpu_count()} cores,"
        f" Linux {platform.release()}, Python {platform.python_version()}."
    )
    PAGE.write_text(with_section(PAGE.read_text(), name, [*table, "", facts]))
    refresh()
    print("\n".join(table), flush=True)


if __name__ == "__main__":
    sys.exit(main())
