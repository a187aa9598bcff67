"""The figures of `cns pipeline report --quick` equal the plain-Python account that Spark's equal, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from pyspark.sql import SparkSession

from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import EVERYTHING, WEEK_MS, Period
from cns_pipeline.quick.figures import create_views, known_members, query, quick_report, report_of_files
from cns_pipeline.reports.document import (
    Coverage,
    DeadLetter,
    Drop,
    Failure,
    Figures,
    QueueRow,
    Recovery,
    Report,
    RetryBin,
    Slow,
    Usage,
)
from cns_pipeline.reports.frames import report_frames
from cns_pipeline.transforms.parse import parse_lines
from cns_pipeline.transforms.report.statements import ROW, WEEK
from tests.pipeline.ingest.segments import event_line
from tests.pipeline.reports import report_oracle_tables
from tests.pipeline.reports.random_notifications import random_log
from tests.pipeline.reports.report_oracle import NumberedEvent, oracles, table_rows

DAY = Period(20_000 * DAY_MS, 20_001 * DAY_MS)
DETAILS = {
    "retries": RetryBin,
    "failures": Failure,
    "drops": Drop,
    "dead_letters": DeadLetter,
    "slowest": Slow,
    "recoveries": Recovery,
    "usage": Usage,
    "queues": QueueRow,
}
TABLES = ("topics", "subscriptions", "endpoints", "protocols", "accounts")


def log_of(seed: int) -> list[NumberedEvent]:
    """Messages around the limits of the day and of the day a week before."""
    before = random_log(seed, DAY.since_ms - WEEK_MS - 3_600_000, DAY.until_ms - WEEK_MS + 3_600_000, 150)
    present = random_log(seed + 1, DAY.since_ms - 3_600_000, DAY.until_ms + 3_600_000, 400)
    return [*before, *[NumberedEvent(boot=f"{one.boot}-2", sequence=one.sequence, event=one.event) for one in present]]


def parquet_files(directory: Path, log: list[NumberedEvent]) -> list[str]:
    """The events as files of a table, partitioned by event."""
    return parquet_of(directory, b"".join([event_line(one.boot, one.sequence, one.event) for one in log]))


def parquet_of(directory: Path, text: bytes) -> list[str]:
    lines = directory / "lines.json"
    lines.write_bytes(text)
    table = directory / "table"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM read_json('{lines}', format = 'newline_delimited', sample_size = -1))"
            f" TO '{table}' (FORMAT parquet, PARTITION_BY (event))"
        )
    return [str(file) for file in table.rglob("*.parquet")]


@pytest.mark.parametrize(
    ("period", "seed"), [(DAY, 1), (EVERYTHING, 5), (Period(DAY.since_ms - 8 * DAY_MS, DAY.until_ms), 9)]
)
def test_the_figures_equal_the_oracle(tmp_path: Path, period: Period, seed: int) -> None:
    log = log_of(seed)
    report = report_of_files(parquet_files(tmp_path, log), period, 0)
    present, before = oracles(log, period)
    (totals,) = table_rows("totals", present, before)
    assert (report.totals, report.before) == (totals.figures, totals.before)
    for table in TABLES:
        found, expected = getattr(report, table), table_rows(table, present, before)
        assert found.rows == expected[: len(found.rows)], table
        assert len(found.rows) + found.left_out == len(expected)
    assert report.coverage.events == len(present.events)
    times = [one.event.at_ms for one in present.numbered]
    assert (report.first_ms, report.last_ms) == (min(times), max(times))
    assert report.totals.duplicates > 0 < report.totals.replayed  # the log has both kinds
    assert report.totals.pending
    assert report.totals.filtered


def rows_of(files: list[str], period: Period, *names: str) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as connection:
        create_views(connection, files, period)
        return {name: query(connection, name) for name in names}


@pytest.mark.parametrize(("period", "seed"), [(DAY, 1), (EVERYTHING, 5)])
def test_the_statements_that_only_spark_runs_mean_the_same_in_duckdb(tmp_path: Path, period: Period, seed: int) -> None:
    """Order of nulls, dates, structs and counted windows: the tables equal the oracle's, rows and order."""
    log = log_of(seed)
    present, _ = oracles(log, period)
    found = rows_of(parquet_files(tmp_path, log), period, *DETAILS)
    for name, struct in DETAILS.items():
        expected = getattr(report_oracle_tables, name)(present)
        assert expected, name
        assert tuple(msgspec.convert(found[name], list[struct], strict=False)) == tuple(expected), name  # type: ignore[valid-type]  # a struct each


EDGES_MS = (0, DAY_MS - 1, DAY_MS, 951_782_399_999, 951_782_400_000, 253_402_300_799_999)
"""The first and the last time, and both sides of midnights: of 1970-01-01, and of the leap day of 2000."""


def hostile_lines() -> bytes:
    """Publishes at the edges; attempts without a cause, status or phase beside some with; an event without a topic.

    Characters whose order differs in UTF-8 and UTF-16, a size of 2**62, and a queue with depths that are not all known.
    """
    topic = "arn:aws:sns:eu-west-1:000000000001:\uffee"
    plain: dict[str, object] = {
        "version": 1,
        "boot": "b",
        "process": "p",
        "message_type": "Notification",
        "topic": topic,
        "message_id": "m",
    }
    edges = [plain | {"event": "publish.accepted", "at_ms": at_ms, "size_bytes": 1, "matched": 0} for at_ms in EDGES_MS]
    kinds: list[dict[str, object]] = [
        {},
        {"cause": "a"},
        {"cause": "a", "status": 0},
        {"cause": "a", "status": 500, "phase": "x"},
    ]
    failed = [
        plain | kind | {"event": "delivery.attempted", "at_ms": 5, "outcome": "failed", "endpoint": "e", "attempt": 1}
        for kind in kinds
    ]
    others = [
        plain
        | {"event": "publish.accepted", "at_ms": 6, "size_bytes": 2**62, "matched": 0, "topic": topic + "\U0001d11e"},
        {key: value for key, value in plain.items() if key != "topic"} | {"event": "publish.accepted", "at_ms": 7},
        plain | {"event": "queue.counted", "at_ms": 8, "queue": "q", "visible": 5, "in_flight": 3},
        plain | {"event": "queue.counted", "at_ms": 9, "queue": "q", "visible": 4},
    ]
    lines = [one | {"sequence": number} for number, one in enumerate([*edges, *failed, *others], 1)]
    return b"".join([msgspec.json.encode(line) + b"\n" for line in lines])


DATES = ["1970-01-01", "1970-01-02", "2000-02-28", "2000-02-29", "9999-12-31"]
ORDER = [(None, None, None), ("a", None, None), ("a", 0, None), ("a", 500, "x")]


def rows_in_duckdb(directory: Path, zone: str, *names: str) -> dict[str, list[dict[str, Any]]]:
    files = parquet_of(directory, hostile_lines())
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        create_views(connection, files, EVERYTHING)
        return {name: query(connection, name) for name in names}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns"])
def test_hostile_data_mean_the_same_in_both_engines(tmp_path: Path, spark: SparkSession, zone: str) -> None:
    found = rows_in_duckdb(tmp_path, zone, "figures", *DETAILS)
    lines = [(line, "f") for line in hostile_lines().decode().splitlines()]
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frames = report_frames(parse_lines(spark.createDataFrame(lines, "value string, file string")), EVERYTHING)
        expected = {name: [row.asDict() for row in getattr(frames, name).collect()] for name in ("figures", *DETAILS)}
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    expected["figures"] = [
        {WEEK: 0, **{name: row[name] for name in ROW}, **row["present"].asDict()} for row in expected["figures"]
    ]
    for rows in (found, expected):
        rows["figures"].sort(key=lambda row: [str(row[name]) for name in ROW])
    assert found == expected
    assert sorted([row["name"] for row in found["figures"] if row["of_table"] == "days"]) == DATES
    assert [(row["cause"], row["status"], row["phase"]) for row in found["failures"]] == ORDER
    assert found["queues"][0]["in_flight"] == -1


def test_a_table_without_files(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    report = quick_report(PipelinePaths(tmp_path), DAY, 0)
    assert (report.totals.accepted, report.totals.success_share, report.topics.rows) == (0, None, ())


def test_what_it_does_not_know_is_null_in_json(tmp_path: Path) -> None:
    """Exactly the members that it leaves at their defaults, whatever is added to the document."""
    report = report_of_files(parquet_files(tmp_path, log_of(1)), DAY, 0)
    known = known_members(report)
    bare = Report(period=EVERYTHING, made_at_ms=1, coverage=Coverage(), totals=Figures())
    assert {name for name, value in known.items() if value is None} == {
        name for name in known if getattr(report, name) == getattr(bare, name)
    }
    assert known["coverage"] == dict.fromkeys(Coverage.__struct_fields__) | {"events": report.coverage.events}
    assert known["totals"] == msgspec.to_builtins(report.totals)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "event=publish.accepted").mkdir()
    (tmp_path / "event=publish.accepted" / "x.parquet").write_text("no Parquet")
    with pytest.raises(StartError, match=r"^cannot read the table: .*x\.parquet"):
        report_of_files([str(tmp_path / "event=publish.accepted" / "x.parquet")], EVERYTHING, 0)
