"""Measures a piece of work in this process and in Spark's Java process: time, CPU seconds, memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext

TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCost:
    """`peak_bytes` is the largest resident memory of both processes since their start."""

    wall_s: float
    cpu_s: float
    peak_bytes: int

    def row(self, engine: str, work: str, events: int) -> str:
        """A row of the table: events per second of one core."""
        rate = events / self.cpu_s if self.cpu_s else 0.0
        return (
            f"| {engine} | {work} | {events:,} | {self.wall_s:.1f} | {self.cpu_s:.1f} | {rate:,.0f} "
            f"| {self.peak_bytes / MIB:,.0f} |"
        )


HEADER = "| engine | work | events | s | CPU s | events/s of a core | MiB |\n|---|---|---|---|---|---|---|"


def measure(work: Callable[[], object]) -> WorkCost:
    began_s, cpu_s = time.monotonic(), _cpu_s()
    work()
    return WorkCost(wall_s=time.monotonic() - began_s, cpu_s=_cpu_s() - cpu_s, peak_bytes=sum(map(_peak_bytes, _ids())))


def _ids() -> list[int]:
    """This process and Java's, if one runs."""
    process = getattr(SparkContext._gateway, "proc", None)
    return [os.getpid(), *([process.pid] if process else [])]


def _cpu_s() -> float:
    return sum([_ticks(process) for process in _ids()]) / TICKS


def _ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])  # user and system time


def _peak_bytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
