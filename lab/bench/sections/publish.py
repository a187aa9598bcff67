"""The section `publish`: publishes to an HTTP endpoint, signed and raw, at full, half and low load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop

from lab.bench.servers import service
from lab.bench.tables import MISSED, joined, table
from lab.harness.server import Server
from lab.load.endpoints import Sink
from lab.load.topics import open_topic, pace_sink, saturate_sink
from lab.measure.figures import Figures, median_run

PUBLISHERS = 16
FULL, QUICK = 4_000, 200
"""Publishes of each workload."""
PACED_S = 3.0
CALM_PER_S = 25.0


class Bar(NamedTuple):
    """The limits of a workload; 0: no limit."""

    per_s: int = 0
    p50_ms: int = 0
    p99_ms: int = 0
    cpu_s: float = 0  # per 1,000 messages, including the store's

    def is_met(self, figures: Figures) -> bool:
        most = (
            (self.p50_ms, figures.p50_ms),
            (self.p99_ms, figures.p99_ms),
            (self.cpu_s, figures.server_us / 1000),
        )
        return figures.per_s >= self.per_s and all(not bar or value <= bar for bar, value in most)

    def __str__(self) -> str:
        parts = {
            f"≥ {self.per_s:,}/s": self.per_s,
            f"p50 ≤ {self.p50_ms}": self.p50_ms,
            f"p99 ≤ {self.p99_ms}": self.p99_ms,
            f"≤ {self.cpu_s} CPU s per 1,000": self.cpu_s,
        }
        return ", ".join(part for part, bar in parts.items() if bar)


BARS = {
    "publish → HTTP, signed": Bar(per_s=1_200, cpu_s=0.9),
    "… at half load, signed": Bar(p99_ms=50),
    "… idle (25/s), signed": Bar(p50_ms=4),
    "publish → HTTP, raw": Bar(per_s=2_500, cpu_s=0.5),
    "… at half load, raw": Bar(p99_ms=50),
    "… idle (25/s), raw": Bar(p50_ms=4),
}


def section(scratch: Path, n: int, seed: int) -> list[str]:
    return lines([_run(scratch / f"publish-{number}", FULL, seed + number) for number in range(n)])


def quick(scratch: Path, seed: int) -> dict[str, str]:
    """One small run; a publish that is wrong ends it."""
    print("\n".join(lines([_run(scratch / "publish", QUICK, seed)])))
    return {}


def _run(data: Path, publishes: int, seed: int) -> list[Figures]:
    with service(data) as server:
        return uvloop.run(measure(server, publishes, seed))


async def measure(server: Server, publishes: int, seed: int) -> list[Figures]:
    """Figures of the workloads in the order of `BARS`."""
    figures: list[Figures] = []
    for kind, raw in (("signed", False), ("raw", True)):
        topic, sink = await open_topic(server, PUBLISHERS, seed, f"web-{kind}"), Sink()
        await topic.subscribe_sink(sink, raw=raw)
        await saturate_sink(topic, publishes // 10, sink)
        full = await saturate_sink(topic, publishes, sink)
        half = await pace_sink(topic, full.per_s / 2, PACED_S, sink)
        figures += [full, half, await pace_sink(topic, CALM_PER_S, PACED_S, sink)]
    return [msgspec.structs.replace(each, workload=name) for name, each in zip(BARS, figures, strict=True)]


def lines(runs: Sequence[Sequence[Figures]]) -> list[str]:
    rows = []
    for same in zip(*runs, strict=True):
        figures = median_run(same)
        bar = BARS[figures.workload]
        rows.append(
            (
                figures.workload,
                f"{figures.per_s:,.0f}",
                joined((figures.p50_ms, figures.p99_ms)),
                joined((figures.server_us, figures.generator_us), 0),
                bar,
                "met" if bar.is_met(figures) else f"**{MISSED}**",
                f"{figures.others_share:.0%}",
            )
        )
    header = ("workload", "messages/s", "p50, p99 ms", "CPU µs: service, generator", "bar", "", "others' CPU")
    return table(header, rows)
