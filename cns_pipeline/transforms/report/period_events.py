"""Chooses the events of a period, and marks those of the week before."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.period import EVERYTHING, WEEK_MS, Period
from cns_pipeline.schema import DATE
from cns_pipeline.transforms.report.columns import WEEK


def events_within(events: DataFrame, period: Period) -> DataFrame:
    """Leave the events of the period. Other dates are not read."""
    if period == EVERYTHING:
        return events.where(F.col("at_ms").isNotNull())
    first, last = _date(period.since_ms), _date(period.until_ms - 1)
    at_ms = F.col("at_ms")
    return events.where(F.col(DATE).between(F.lit(first), F.lit(last))).where(
        (at_ms >= period.since_ms) & (at_ms < period.until_ms)
    )


def events_of_weeks(events: DataFrame, period: Period) -> DataFrame:
    """Add the column `week`. An event of a period longer than a week is there twice: it is of both spans."""
    present = events_within(events, period).withColumn(WEEK, F.lit(0))
    before = period.earlier(WEEK_MS)
    if before is None:
        return present
    return present.union(events_within(events, before).withColumn(WEEK, F.lit(1)))


def _date(at_ms: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).date()
