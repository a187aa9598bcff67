"""The figures of `cns pipeline report --quick` equal the plain-Python account that Spark's equal, too."""

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec
import pytest

from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import EVERYTHING, WEEK_MS, Period
from cns_pipeline.quick.figures import known_members, quick_report, report_of_files
from cns_pipeline.reports.document import Coverage, Figures, Report
from tests.pipeline.ingest.segments import event_line
from tests.pipeline.reports.random_notifications import random_log
from tests.pipeline.reports.report_oracle import NumberedEvent, oracles, table_rows

DAY = Period(20_000 * DAY_MS, 20_001 * DAY_MS)
TABLES = ("topics", "subscriptions", "endpoints", "protocols", "accounts")


def log_of(seed: int) -> list[NumberedEvent]:
    """Messages around the limits of the day and of the day a week before."""
    before = random_log(seed, DAY.since_ms - WEEK_MS - 3_600_000, DAY.until_ms - WEEK_MS + 3_600_000, 150)
    present = random_log(seed + 1, DAY.since_ms - 3_600_000, DAY.until_ms + 3_600_000, 400)
    return [*before, *[NumberedEvent(boot=f"{one.boot}-2", sequence=one.sequence, event=one.event) for one in present]]


def parquet_files(directory: Path, log: list[NumberedEvent]) -> list[str]:
    """The events as files of a table, partitioned by event."""
    lines = directory / "lines.json"
    lines.write_bytes(b"".join([event_line(one.boot, one.sequence, one.event) for one in log]))
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
