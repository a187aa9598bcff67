"""Makes a report: reads the events of its period, computes the figures, and writes the files and the document."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_common.durations import HOUR_MS
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import WEEK_MS, Period
from cns_pipeline.read import read_events
from cns_pipeline.reports.buckets import NOTHING, bucket_period, bucket_span_ms, buckets, latency_bins
from cns_pipeline.reports.document import (
    Coverage,
    DeadLetter,
    Drop,
    Failure,
    QueueRow,
    QueueTable,
    Recovery,
    Report,
    RetryBin,
    Slow,
    TimeBucket,
    Usage,
)
from cns_pipeline.reports.files import ReportFiles
from cns_pipeline.reports.frames import PRESENT, ReportFrames, report_frames
from cns_pipeline.reports.tables import FigureRows, collect_figures, collect_rows, figures_of, write_figures
from cns_pipeline.schema import EVENT, FILE, MALFORMED, NEWER
from cns_pipeline.transforms.coverage import period_near

FILES_NAMED = 5
RECOVERIES_SHOWN = 1_000


def read_for_report(spark: SparkSession, paths: PipelinePaths, period: Period) -> DataFrame:
    """Read the events of the period, of the week before, and of an hour around both, which shows what is unknown."""
    if period.is_everything:
        return read_events(spark, paths)
    first, last = period_near(period.earlier(WEEK_MS) or period), period_near(period)
    return read_events(spark, paths, first.since_ms, last.until_ms)


def make_report(
    events: DataFrame, period: Period, files: ReportFiles, made_at_ms: int, removed_until_ms: int = 0
) -> Report:
    """Write all tables and the document, and return the document. `events` comes from `read_for_report`; events until
    `removed_until_ms` were removed from the table."""
    frames = report_frames(events, period, removed_until_ms)
    tables = collect_figures(frames.figures)
    write_figures(files, frames.figures, tables)
    report = _document(frames, tables, files, period, made_at_ms)
    files.write_document(report)
    return report


def _document(
    frames: ReportFrames, tables: dict[str, FigureRows], files: ReportFiles, period: Period, made_at_ms: int
) -> Report:
    coverage, first_ms, last_ms = _coverage(frames)
    totals = tables["totals"].table().rows
    retries, _ = collect_rows(files, "retries", frames.retries, RetryBin)
    failures, _ = collect_rows(files, "failures", frames.failures, Failure)
    dead_letters, _ = collect_rows(files, "dead_letters", frames.dead_letters, DeadLetter)
    drops, _ = collect_rows(files, "drops", frames.drops, Drop)
    slowest, _ = collect_rows(files, "slowest", frames.slowest, Slow)
    recoveries, _ = collect_rows(files, "recoveries", frames.recoveries, Recovery, RECOVERIES_SHOWN)
    usage, _ = collect_rows(files, "usage", frames.usage, Usage, RECOVERIES_SHOWN)
    queues, queues_left_out = collect_rows(files, "queues", frames.queues, QueueRow)
    shown: list[TimeBucket] = []
    if first_ms is not None and last_ms is not None:
        shown = _buckets(tables, bucket_period(period, first_ms, last_ms, made_at_ms))
    return Report(
        period=period,
        made_at_ms=made_at_ms,
        first_ms=first_ms,
        last_ms=last_ms,
        coverage=coverage,
        totals=totals[0].figures if totals else NOTHING,
        before=totals[0].before if totals else None,
        buckets=tuple(shown),
        topics=tables["topics"].table(),
        subscriptions=tables["subscriptions"].table(),
        endpoints=tables["endpoints"].table(),
        protocols=tables["protocols"].table(),
        accounts=tables["accounts"].table(),
        days=tables["days"].table(),
        queues=QueueTable(rows=queues, left_out=queues_left_out),
        retries=retries,
        latency=tuple(latency_bins({row["from_ms"]: row["deliveries"] for row in frames.latency.collect()})),
        failures=failures,
        dead_letters=dead_letters,
        drops=drops,
        slowest=slowest,
        recoveries=recoveries,
        usage=usage,
    )


def _coverage(frames: ReportFrames) -> tuple[Coverage, int | None, int | None]:
    known = frames.coverage.agg(
        F.coalesce(F.sum("events"), F.lit(0)).alias("events"),
        F.coalesce(F.sum("unknown"), F.lit(0)).alias("unknown"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
    ).first()
    assert known is not None  # an aggregate over all has one row
    aside = {(row[EVENT], row[FILE]): row["lines"] for row in frames.aside.collect()}
    files = sorted({file for event, file in aside if event == MALFORMED})
    coverage = Coverage(
        events=known["events"],
        unknown=known["unknown"],
        malformed=sum([lines for (event, _), lines in aside.items() if event == MALFORMED]),
        newer=sum([lines for (event, _), lines in aside.items() if event == NEWER]),
        malformed_files=tuple(files[:FILES_NAMED]),
    )
    return coverage, known["first_ms"], known["last_ms"]


def _buckets(tables: dict[str, FigureRows], period: Period) -> list[TimeBucket]:
    span_ms = bucket_span_ms(period)
    table, start_of = ("hours", int) if span_ms == HOUR_MS else ("days", _day_ms)
    found = {start_of(row["name"]): figures_of(row[PRESENT]) or NOTHING for row in tables[table].rows}
    return buckets(found, period, span_ms)


def _day_ms(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000
