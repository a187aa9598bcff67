"""Periods in the options of the pipeline's commands."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_pipeline.health.job import health_period
from cns_pipeline.period import END_MS, EVERYTHING, WEEK_MS, Period, parse_period
from cns_pipeline.reports.render import shown_period
from tests.pipeline.reports.sample_report import SAMPLE

MIDNIGHT_MS = 20_000 * DAY_MS  # 2024-10-04
NOW_MS = MIDNIGHT_MS + 3_600_000


@pytest.mark.parametrize(
    ("since", "until", "day", "expected"),
    [
        ("", "", "", EVERYTHING),
        ("2024-10-04", "", "", Period(MIDNIGHT_MS, NOW_MS)),
        ("", "2024-10-04T08:00", "", Period(0, MIDNIGHT_MS + 8 * 3_600_000)),
        ("2024-10-04T02:00+02:00", "", "", Period(MIDNIGHT_MS, NOW_MS)),
        ("2024-10-04T00:00:00.001", "2024-10-04T00:00:00.002", "", Period(MIDNIGHT_MS + 1, MIDNIGHT_MS + 2)),
        ("-24h", "-60m", "", Period(NOW_MS - DAY_MS, MIDNIGHT_MS)),
        ("7d", "10s", "", Period(NOW_MS - WEEK_MS, NOW_MS - 10_000)),
        ("-999999999d", "", "", Period(0, NOW_MS)),
        ("", "", "2024-10-04", Period(MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)),
        ("", "", "today", Period(MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)),
        ("", "", "yesterday", Period(MIDNIGHT_MS - DAY_MS, MIDNIGHT_MS)),
        ("", "", "9999-12-31", Period(END_MS - DAY_MS, END_MS)),
    ],
)
def test_options_name_a_period(since: str, until: str, day: str, expected: Period) -> None:
    assert parse_period(since, until, day, NOW_MS) == expected


@pytest.mark.parametrize(
    ("since", "until", "day", "reason"),
    [
        ("soon", "", "", "--since 'soon' is not a time like 2026-11-22"),
        ("", "2024-13-01", "", "--until '2024-13-01' is not a time"),
        ("-24", "", "", "--since '-24' is not a time"),
        ("", "", "2024-10-04T08:00", "--day '2024-10-04T08:00' is neither a date"),
        ("", "", "-1d", "--day '-1d' is neither a date"),
        ("1969-12-31", "", "", "is not a time"),
        ("0001-01-01T00:00+14:00", "", "", "is not a time"),
        ("", "9999-12-31T23:00-05:00", "", "is not a time"),
        ("", "", "1969-12-31", "is neither a date"),
        ("-1h", "", "today", "--day goes without --since and --until"),
        ("-1h", "-1h", "", "--since -1h is not before --until -1h"),
        ("2024-10-05", "2024-10-04", "", "is not before"),
        ("2024-10-05", "", "", "--since 2024-10-05 is not before now"),
        ("", "1970-01-01", "", "--since the beginning is not before --until 1970-01-01"),
    ],
)
def test_text_that_names_no_period(since: str, until: str, day: str, reason: str) -> None:
    with pytest.raises(StartError, match=re.escape(reason)) as refused:
        parse_period(since, until, day, NOW_MS)
    assert refused.value.exit_code == 2


def test_the_same_span_a_week_earlier() -> None:
    period = parse_period("", "", "today", NOW_MS)
    assert period.earlier(WEEK_MS) == Period(MIDNIGHT_MS - WEEK_MS, MIDNIGHT_MS - WEEK_MS + DAY_MS)
    for endless in (EVERYTHING, Period(MIDNIGHT_MS, END_MS), Period(0, MIDNIGHT_MS)):
        assert endless.earlier(WEEK_MS) is None
    assert Period(DAY_MS, 2 * DAY_MS).earlier(WEEK_MS) is None


def test_an_end_in_the_future_is_now() -> None:
    """Judged by its last hour, today would have no attempts; a period until 9999 has millions of slots."""
    future = Period(MIDNIGHT_MS, END_MS - 1)
    assert health_period(future, NOW_MS) == Period(MIDNIGHT_MS, NOW_MS)
    assert health_period(Period(NOW_MS + 5, END_MS), NOW_MS) == Period(NOW_MS + 5, NOW_MS + 6)
    report = replace(SAMPLE, period=future, made_at_ms=NOW_MS, first_ms=MIDNIGHT_MS, last_ms=NOW_MS - 9)
    assert shown_period(report) == Period(MIDNIGHT_MS, NOW_MS)
    assert shown_period(replace(report, last_ms=NOW_MS)) == Period(MIDNIGHT_MS, NOW_MS + 1)


@pytest.mark.parametrize(
    ("period", "text"),
    [
        (EVERYTHING, "all events"),
        (Period(MIDNIGHT_MS, NOW_MS + 1), "2024-10-04T00:00Z to 2024-10-04T01:00:00.001Z"),
        (Period(0, MIDNIGHT_MS), "the beginning to 2024-10-04T00:00Z"),
        (Period(MIDNIGHT_MS + 1000, END_MS), "2024-10-04T00:00:01Z to the end"),
    ],
)
def test_a_period_in_words(period: Period, text: str) -> None:
    assert str(period) == text
