"""The directory of a report, its buckets and bins: no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns_common.durations import DAY_MS, HOUR_MS
from cns_pipeline.location import located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import EVERYTHING, Period
from cns_pipeline.reports.buckets import (
    BUCKETS_MAX,
    NOTHING,
    bucket_period,
    bucket_span_ms,
    buckets,
    latency_bins,
)
from cns_pipeline.reports.document import Figures
from cns_pipeline.reports.files import ReportFiles, directory_name, new_report
from cns_pipeline.storage import Storage

START_MS = 20_000 * DAY_MS  # 2024-10-04
DAY = Period(START_MS, START_MS + DAY_MS)


@pytest.fixture
def paths(tmp_path: Path) -> PipelinePaths:
    return PipelinePaths(tmp_path)


@pytest.mark.parametrize(
    ("period", "name"),
    [
        (EVERYTHING, "all"),
        (DAY, "2024-10-04"),
        (Period(START_MS, START_MS + 2 * DAY_MS), "latest"),
        (Period(START_MS + 1, START_MS + DAY_MS + 1), "latest"),
        (Period(START_MS), "latest"),
    ],
)
def test_each_day_has_a_directory(period: Period, name: str) -> None:
    assert directory_name(period) == name


def names(paths: PipelinePaths) -> list[str]:
    return Storage(None).names(paths.reports)


def write_report(paths: PipelinePaths, page: str) -> None:
    with new_report(Storage(None), paths, DAY) as files:
        files.write_page(page)


def page_of(paths: PipelinePaths) -> str:
    return Storage(None).read(paths.reports / "2024-10-04" / "report.html").decode()


def test_a_report_takes_the_place_of_the_last_one(paths: PipelinePaths) -> None:
    for page in ("one", "two"):
        write_report(paths, page)
        assert page_of(paths) == page
    assert names(paths) == ["2024-10-04"]


def test_a_report_that_fails_leaves_the_last_one(paths: PipelinePaths) -> None:
    write_report(paths, "one")
    with pytest.raises(OSError, match="disk"), new_report(Storage(None), paths, DAY) as files:
        files.write_page("half")
        raise OSError("disk")
    assert page_of(paths) == "one"
    write_report(paths, "two")
    assert (page_of(paths), names(paths)) == ("two", ["2024-10-04"])


def test_a_kill_between_the_renames_is_repaired(paths: PipelinePaths) -> None:
    write_report(paths, "one")
    storage = Storage(None)
    storage.rename(paths.reports / "2024-10-04", paths.reports / ".old-2024-10-04")
    with pytest.raises(OSError, match="disk"), new_report(storage, paths, DAY):
        raise OSError("disk")
    assert page_of(paths) == "one"


def test_cells_are_no_formulas_and_keep_commas_and_lines(paths: PipelinePaths) -> None:
    files = ReportFiles(Storage(None), located(str(paths.out)))
    texts = ("=1+1", "+1", "-1", "@x", 'a,"b"\nc', "plain")
    files.write_rows("failures", ("reason", "n"), [{"reason": text, "n": -1, "more": 0} for text in texts])
    written = Storage(None).read(paths.out / "failures.csv").decode()
    assert written == 'reason,n\n\'=1+1,-1\n\'+1,-1\n\'-1,-1\n\'@x,-1\n"a,""b""\nc",-1\nplain,-1\n'


def test_all_hours_of_a_day_have_a_bucket() -> None:
    figures = {START_MS + HOUR_MS: Figures(attempts=3)}
    found = buckets(figures, DAY, bucket_span_ms(DAY))
    assert [bucket.start_ms for bucket in found] == [START_MS + hour * HOUR_MS for hour in range(24)]
    assert [bucket.figures.attempts for bucket in found[:3]] == [0, 3, 0]


def test_a_long_period_has_a_bucket_a_day_and_a_limit() -> None:
    assert bucket_span_ms(Period(START_MS, START_MS + 14 * DAY_MS)) == HOUR_MS
    assert bucket_span_ms(Period(START_MS, START_MS + 14 * DAY_MS + 1)) == DAY_MS
    figures = {START_MS: Figures(attempts=1), START_MS + BUCKETS_MAX * DAY_MS: Figures(attempts=2)}
    found = buckets(figures, Period(START_MS, START_MS + BUCKETS_MAX * DAY_MS + 1), DAY_MS)
    assert [bucket.figures.attempts for bucket in found] == [1, 2]


def test_buckets_begin_and_end_with_the_events_where_the_period_does_not() -> None:
    first_ms, last_ms, now_ms = START_MS + 5, START_MS + 9, START_MS + 20
    assert bucket_period(EVERYTHING, first_ms, last_ms, now_ms) == Period(first_ms, now_ms)
    assert bucket_period(DAY, first_ms, last_ms, now_ms) == Period(START_MS, now_ms)
    assert bucket_period(DAY, first_ms, last_ms, START_MS + 3 * DAY_MS) == DAY
    assert bucket_period(EVERYTHING, first_ms, last_ms, 7) == Period(first_ms, last_ms + 1)  # a clock that is late
    assert NOTHING.accepted == NOTHING.attempts == 0


def test_bins_double_up_to_the_last_one() -> None:
    assert latency_bins({}) == []
    found = [(one.from_ms, one.to_ms, one.deliveries) for one in latency_bins({0: 1, 4: 5})]
    assert found == [(0, 1, 1), (1, 2, 0), (2, 4, 0), (4, 8, 5)]
