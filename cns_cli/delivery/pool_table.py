"""The output of `cns pool list`: a table for people, and JSON with all gauges for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import asdict

from cns.delivery.envelope import timestamp_text
from cns_backend.clock_health import why_idle
from cns_backend.stores.contract import EVERY_WORKER, PoolSize, PoolState, ProcessReport
from cns_cli.output import table_lines
from cns_common.metrics.catalogue import (
    BUILD_INFO,
    METRICS,
    POOL_SENDS_IN_FLIGHT,
    POOL_SENDS_WAITING,
    POOL_THREADS,
    POOL_THREADS_BLOCKED,
    POOL_THREADS_DRAINING,
)
from cns_common.metrics.model import Sample

TITLES = ("worker", "pool", "threads", "wanted", "draining", "blocked", "in flight", "waiting", "set by")
COLUMNS = (POOL_THREADS, POOL_THREADS_DRAINING, POOL_THREADS_BLOCKED, POOL_SENDS_IN_FLIGHT, POOL_SENDS_WAITING)
"""The gauges that are columns of the table."""
OTHERS = frozenset(
    metric.name for metric in METRICS.values() if metric.kind == "gauge" and metric.name.startswith("cns_")
).difference({metric.name for metric in (*COLUMNS, BUILD_INFO)})


def table(workers: Sequence[ProcessReport], *, gauges: bool = False) -> list[str]:
    """Return a line per pool, then the workers that deliver nothing, then the other gauges of workers if asked for."""
    idle = [f"{report.process} {reason}" for report in workers if (reason := why_idle(report.samples))]
    rows = [_row(report.process, state) for report in workers for state in report.pools]
    others = [
        (report.process, name, f"{value:g}") for report in workers for name, value in _gauges(report.samples).items()
    ]
    return [
        *table_lines(TITLES, rows),
        *(["", *idle] if idle else []),
        *(["", *table_lines(("worker", "gauge", "value"), others)] if others and gauges else []),
    ]


def described(workers: Sequence[ProcessReport], sizes: Sequence[PoolSize]) -> dict[str, Any]:
    """Return the pools and gauges by worker, and the wanted sizes."""
    return {
        "workers": {
            report.process: {
                "pools": {state.pool: _named(state) for state in report.pools},
                "gauges": _gauges(report.samples),
            }
            for report in workers
        },
        "sizes": [_size(size) for size in sizes],
    }


def _row(worker: str, state: PoolState) -> tuple[object, ...]:
    since = f", {timestamp_text(state.set_at_ms)}" if state.set_at_ms else ""
    counts = (state.threads, state.wanted, state.draining, state.blocked, state.in_flight, state.waiting)
    return (worker, state.pool, *counts, state.set_by + since)


def _named(state: PoolState) -> dict[str, Any]:
    members = asdict(state)
    del members["pool"]
    return members


def _size(size: PoolSize) -> dict[str, Any]:
    return {**asdict(size), "worker": None if size.worker == EVERY_WORKER else size.worker}


def _gauges(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the gauges that are not columns, by name and labels."""
    return {_name(sample): sample.value for sample in samples if sample.name in OTHERS}


def _name(sample: Sample) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sample.labels)
    return f"{sample.name}{{{labels}}}" if labels else sample.name
