"""Every table of a report equals the plain-Python account of the same random events."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from cns_common.durations import DAY_MS
from cns_pipeline.location import located
from cns_pipeline.period import EVERYTHING, WEEK_MS, Period
from cns_pipeline.reports.document import Report
from cns_pipeline.reports.files import ReportFiles
from cns_pipeline.reports.report import make_report
from cns_pipeline.storage import Storage
from cns_pipeline.transforms.parse import parse_lines
from tests.pipeline.ingest.segments import event_line
from tests.pipeline.reports import report_oracle_tables
from tests.pipeline.reports.random_notifications import random_log
from tests.pipeline.reports.report_oracle import NumberedEvent, Oracle, oracles, rounded, table_rows

DAY = Period(20_000 * DAY_MS, 20_001 * DAY_MS)
MADE_AT_MS = 20_002 * DAY_MS
FIGURE_TABLES = ("topics", "subscriptions", "endpoints", "protocols", "accounts", "days")
DETAILS = ("retries", "latency", "failures", "drops", "dead_letters", "slowest", "recoveries", "usage")
RECOMPILED_MAX = 30
"""A first report compiles 325 pieces of code, and a second one 6, whose plans depend on what adaptive execution saw."""
LINES = StructType([StructField("value", StringType()), StructField("file", StringType())])


def events_of(spark: SparkSession, log: list[NumberedEvent]) -> DataFrame:
    lines = [event_line(one.boot, one.sequence, one.event).decode().strip() for one in log]
    return parse_lines(spark.createDataFrame([(line, "f") for line in lines], LINES))


def day_and_week_before(seed: int) -> list[NumberedEvent]:
    """Messages around the limits of the day and of the day a week before; numbers go on from one to the next."""
    before = random_log(seed, DAY.since_ms - WEEK_MS - 3_600_000, DAY.until_ms - WEEK_MS + 3_600_000, 60)
    last: dict[str, int] = defaultdict(int)
    for one in before:
        last[one.boot] = max(last[one.boot], one.sequence)
    present = random_log(seed + 1, DAY.since_ms - 3_600_000, DAY.until_ms + 3_600_000, 250)
    later = [NumberedEvent(boot=one.boot, sequence=last[one.boot] + one.sequence, event=one.event) for one in present]
    return [*before, *later]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("period", "seed"),
    [(DAY, 1), (EVERYTHING, 5), (Period(DAY.since_ms - 8 * DAY_MS), 9)],
    ids=["a day", "everything", "a week and more, without an end"],
)
def test_a_report_equals_the_oracle(spark: SparkSession, tmp_path: Path, period: Period, seed: int) -> None:
    log = day_and_week_before(seed)
    frame = events_of(spark, log).cache()
    report = make_report(frame, period, ReportFiles(Storage(spark), located(tmp_path / "report")), MADE_AT_MS)
    frame.unpersist()
    present, before = oracles(log, period)
    check_figures(report, present, before)
    for table in DETAILS:
        assert getattr(report, table) == getattr(report_oracle_tables, table)(present), table
    assert report.queues.rows == report_oracle_tables.queues(present)
    check_coverage(report, log, present, period)
    check_files(spark, tmp_path / "report", report)


@pytest.mark.extended
def test_a_second_report_hardly_compiles(spark: SparkSession, tmp_path: Path) -> None:
    """The session keeps the code of all frames of a report: compiling it was half of what a small one cost."""
    frame = events_of(spark, random_log(3, DAY.since_ms, DAY.until_ms, 20)).cache()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    counts = []
    for number in range(2):
        counts.append(-compiled.getCount())
        files = ReportFiles(Storage(spark), located(tmp_path / f"report-{number}"))
        make_report(frame, DAY, files, MADE_AT_MS)
        counts[-1] += compiled.getCount()
    frame.unpersist()
    assert counts[1] <= RECOMPILED_MAX, counts


def check_figures(report: Report, present: Oracle, before: Oracle | None) -> None:
    (totals,) = table_rows("totals", present, before)
    assert (report.totals, report.before) == (totals.figures, totals.before)
    for table in FIGURE_TABLES:
        found, expected = getattr(report, table), table_rows(table, present, before)
        assert {row.name: row for row in found.rows} == {row.name: row for row in expected}, table
        assert (found.rows, found.left_out) == (expected, 0), table
    hours = {int(row.name): row.figures for row in table_rows("hours", present, None)}
    if report.buckets[0].span_ms == 3_600_000:
        shown = {bucket.start_ms: bucket.figures for bucket in report.buckets}
        assert hours == {start: shown.pop(start) for start in hours}
        assert {figures.attempts for figures in shown.values()} <= {0}
    else:
        assert sum(bucket.figures.attempts for bucket in report.buckets) == report.totals.attempts


def check_coverage(report: Report, log: list[NumberedEvent], present: Oracle, period: Period) -> None:
    assert report.coverage.events == len(present.events)
    unknown = 0
    for boot in {one.boot for one in present.numbered}:
        own = [one.sequence for one in present.numbered if one.boot == boot]
        first = 1 if period == EVERYTHING else min(own)
        unknown += len(set(range(first, max(own) + 1)) - {one.sequence for one in log if one.boot == boot})
    assert report.coverage.unknown == unknown > 0


def check_files(spark: SparkSession, directory: Path, report: Report) -> None:
    """Both files of a table have the rows of the document."""
    with (directory / "subscriptions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["topic"], row["subscription"], int(row["delivered"])) for row in rows] == [
        (row.topic, row.name, row.figures.delivered) for row in report.subscriptions.rows
    ]
    parquet = spark.read.parquet(str(directory / "subscriptions.parquet"))
    assert parquet.columns == list(rows[0])
    assert sorted([str(row["delivered"]) for row in parquet.collect()]) == sorted([row["delivered"] for row in rows])
    names = {path.name for path in directory.glob("*.csv")}
    assert names == {f"{path.stem}.csv" for path in directory.glob("*.parquet")}
    assert msgspec.json.decode((directory / "report.json").read_bytes(), type=Report) == report


@pytest.mark.parametrize("ms", [0, 1, 255, 256, 511, 513, 1_000, 65_535, 10_000_001, 2**40 + 12_345])
def test_a_rounded_time_is_at_most_one_part_in_128_lower(ms: int) -> None:
    assert rounded(ms) <= ms < rounded(ms) * (1 + 1 / 128) + 1
