"""The pieces of work that are measured. Each engine's are done in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cns_common.durations import DAY_MS
from cns_pipeline.arguments import Arguments, make_arguments
from cns_pipeline.period import Period
from lab.bench.pipeline import duck
from lab.bench.pipeline.made_events import write_day
from lab.bench.pipeline.made_messages import write_messages
from lab.bench.pipeline.measured import measure

EVENTS_PER_MESSAGE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeDay:
    """Yesterday's events: `deliveries` and, if they are wanted, `messages` are data directories."""

    deliveries: Path
    messages: Path | None
    start_ms: int
    events: int
    reports: int

    def arguments(self, data: Path) -> Arguments:
        return make_arguments(data, None, None, Period(self.start_ms, self.start_ms + DAY_MS))


def make(day: MadeDay) -> None:
    write_day(day.deliveries / "events", day.start_ms, day.events)
    if day.messages is not None:
        write_messages(day.messages / "events", day.start_ms, day.events // EVENTS_PER_MESSAGE)


def run_spark(day: MadeDay) -> None:
    from cns_pipeline.jobs import audit, ingest, report
    from cns_pipeline.session import open_job

    deliveries = day.arguments(day.deliveries)
    with open_job("bench", deliveries):
        show("Spark", "ingest", day, lambda: ingest.run(deliveries))
        for number in range(day.reports):
            show("Spark", "report, warm" if number else "report, first", day, lambda: report.run(deliveries))
        if day.messages is not None:
            messages = day.arguments(day.messages)
            show("Spark", "ingest of audit events", day, lambda: ingest.run(messages))
            show("Spark", "audit", day, lambda: audit.run(messages))


def run_duckdb(day: MadeDay) -> None:
    show("DuckDB", "ingest", day, lambda: duck.ingest(day.deliveries / "events", day.deliveries / "duckdb"))
    show("DuckDB", "report --quick", day, lambda: duck.report(day.arguments(day.deliveries)))


def show(engine: str, work: str, day: MadeDay, run: Callable[[], object]) -> None:
    print(measure(run).row(engine, work, day.events), flush=True)
