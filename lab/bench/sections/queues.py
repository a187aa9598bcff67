"""The section `queues`: sends, receives and batches of the service against the floor, in interleaved runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median_high
from typing import NamedTuple

import uvloop

from lab.bench.servers import FLOOR, QUIET_S_MAX, service
from lab.bench.tables import bar_cell, joined, table
from lab.harness.server import Server, running
from lab.harness.usage import await_quiet
from lab.load import polls, workloads
from lab.load.queues import open_client
from lab.measure.figures import Figures, median_run

CONNECTIONS = 64
WAITING = 8
BARS = {"send": 0.5, "receive + delete": 0.5, "batch send": 0.5, "batch receive + delete": 0.5}
WAKE_BAR = 1.4
SANE_CPU_RATIO = 6.0
"""Limit of a quick run, which tests that the harness and the service work. It compares CPU times, since on a busy
machine a server that uses two cores loses more time than one that uses one."""


class Size(NamedTuple):
    """The number of operations of each workload."""

    sends: int
    pairs: int
    batched: int
    wakes: int


FULL = Size(sends=30_000, pairs=15_000, batched=100_000, wakes=300)
QUICK = Size(sends=2_000, pairs=1_000, batched=4_000, wakes=20)

Runs = dict[tuple[str, str], list[Figures]]
"""By (workload, server)."""


def section(scratch: Path, n: int, seed: int) -> list[str]:
    return lines(interleaved(scratch, n, seed, FULL, QUIET_S_MAX))


def quick(scratch: Path, seed: int) -> dict[str, str]:
    """One small run, by workload; wrong is what is absurdly slow."""
    runs = interleaved(scratch, 1, seed, QUICK, 0)
    print("\n".join(lines(runs)))
    ratios = {workload: _cpu_ratio(*_medians(runs, workload)) for workload in BARS}
    return {name: f"{ratio:.1f} of the floor's CPU" if ratio > SANE_CPU_RATIO else "" for name, ratio in ratios.items()}


def interleaved(scratch: Path, n: int, seed: int, size: Size, quiet_s: float) -> Runs:
    runs: Runs = defaultdict(list)
    for number in range(n):
        for name in ("floor", "service"):
            data = scratch / f"{name}-{number}"
            with running(name, FLOOR, data) if name == "floor" else service(data) as server:
                await_quiet(quiet_s)
                for figures in uvloop.run(measure(server, size, seed + number)):
                    print(figures, flush=True)
                    runs[(figures.workload.partition(",")[0], name)].append(figures)
    return runs


async def measure(server: Server, size: Size, seed: int) -> list[Figures]:
    """Send, receive + delete, batches, wake."""
    client = await open_client(server, CONNECTIONS, seed, "single")
    figures = [await workloads.send(client, size.sends), await workloads.receive_delete(client, size.pairs)]
    await client.use_queue("batched")
    figures += [await workloads.send_batches(client, size.batched), await workloads.drain(client, size.batched)]
    client.close()
    figures.append(await polls.wake(await open_client(server, WAITING + 1, seed, "wake"), size.wakes))
    return figures


def lines(runs: Runs) -> list[str]:
    header = (
        *("workload", "floor/s", "service/s", "ratio", "bar", "CPU µs: floor, service, client"),
        *("CPU ratio, floor : service", "p50, p99 ms", "others' CPU"),
    )
    return table(header, [*[_row(runs, workload, bar) for workload, bar in BARS.items()], _wake(runs)])


def _row(runs: Runs, workload: str, bar: float) -> Sequence[object]:
    floor, service = _medians(runs, workload)
    ratio = service.per_s / floor.per_s
    return (
        workload,
        f"{floor.per_s:,.0f}",
        f"{service.per_s:,.0f}",
        f"**{ratio:.2f}**",
        bar_cell(f"≥ {bar}", met=ratio >= bar),
        f"{floor.server_us:.0f}, {service.server_us:.0f}, {service.generator_us:.0f}",
        f"{1 / _cpu_ratio(floor, service):.2f}",
        joined((service.p50_ms, service.p99_ms)),
        f"{max(floor.others_share, service.others_share):.0%}",
    )


def _wake(runs: Runs) -> Sequence[object]:
    bare, p50 = (median_high(run.p50_ms for run in runs[("wake", name)]) for name in ("floor", "service"))
    p99 = median_run(runs[("wake", "service")]).p99_ms
    bar = bar_cell(f"≤ {WAKE_BAR}", met=p50 / bare <= WAKE_BAR)
    return "wake, p50 ms", f"{bare:.2f}", f"{p50:.2f}", f"**{p50 / bare:.2f}**", bar, "", "", joined((p50, p99)), ""


def _medians(runs: Runs, workload: str) -> tuple[Figures, Figures]:
    """Return the median runs of the floor and of the service."""
    return median_run(runs[(workload, "floor")]), median_run(runs[(workload, "service")])


def _cpu_ratio(floor: Figures, service: Figures) -> float:
    return service.server_us / floor.server_us
