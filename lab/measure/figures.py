"""The figures of one workload: throughput, latencies, and CPU by process."""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Sequence
from time import perf_counter
from typing import TypeVar

import msgspec

from lab.harness.server import Server
from lab.harness.usage import machine_cpu_s

NS_PER_MS = 1e6
NS_PER_S = 1_000_000_000
US_PER_S = 1e6


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    server: str
    connections: int
    units: int  # messages, pairs or publishes, as the workload counts
    seconds: float
    per_s: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    mean_ms: float
    server_us: float  # CPU per unit, all processes of the server
    generator_us: float  # CPU per unit, including a receiver in the generator's process
    others_share: float  # of all cores: CPU used by other processes of the machine


Run = TypeVar("Run", bound=Figures)


class Meter:
    """Measures from its construction to `read`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cpu = self._snapshot()
        self._began_s = perf_counter()

    def read(self, workload: str, connections: int, units: int, times_ns: Sequence[int]) -> Figures:
        seconds = perf_counter() - self._began_s
        machine, server, generator = (now - then for now, then in zip(self._snapshot(), self._cpu, strict=True))
        times_ms = sorted(time_ns / NS_PER_MS for time_ns in times_ns) or [0.0]
        return Figures(
            workload=workload,
            server=self._server.name,
            connections=connections,
            units=units,
            seconds=round(seconds, 3),
            per_s=round(units / seconds, 1),
            p50_ms=round(percentile(times_ms, 50), 3),
            p95_ms=round(percentile(times_ms, 95), 3),
            p99_ms=round(percentile(times_ms, 99), 3),
            mean_ms=round(statistics.fmean(times_ms), 4),
            server_us=round(server / max(units, 1) * US_PER_S, 1),
            generator_us=round(generator / max(units, 1) * US_PER_S, 1),
            others_share=round(max(machine - server - generator, 0.0) / seconds / cores(), 3),
        )

    def _snapshot(self) -> tuple[float, float, float]:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return machine_cpu_s(), self._server.cpu_s(), own.ru_utime + own.ru_stime


def cores() -> int:
    return os.cpu_count() or 1


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile of sorted values."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(rank, 1) - 1]


def median_run(runs: Sequence[Run]) -> Run:
    """The run with the median throughput."""
    return sorted(runs, key=lambda run: run.per_s)[len(runs) // 2]
