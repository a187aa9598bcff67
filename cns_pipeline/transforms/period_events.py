"""Selects the events of a period, and marks those of the week before."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.period import EVERYTHING, WEEK_MS, Period
from cns_pipeline.schema import DATE
from cns_pipeline.transforms.report.statements import WEEK


def events_within(events: DataFrame, period: Period) -> DataFrame:
    """Keep the events of the period. Other dates are not read."""
    if period == EVERYTHING:
        return events.where(F.col("at_ms").isNotNull())
    at_ms = F.col("at_ms")
    return events.where(is_of_dates(period)).where((at_ms >= period.since_ms) & (at_ms < period.until_ms))


def is_of_dates(period: Period) -> Column:
    """Whether the date of a row is in the period, in whole or in part."""
    return F.col(DATE).between(F.lit(_date(period.since_ms)), F.lit(_date(period.until_ms - 1)))


def is_of_notification() -> Column:
    """Whether an event is of a notification, or of no message at all: figures do not count confirmations."""
    return F.coalesce("message_type", F.lit("")).isin("", "Notification")


def events_of_weeks(events: DataFrame, period: Period) -> DataFrame:
    """Add the column `week`. In a period longer than a week, an event of both spans has two rows."""
    present = events_within(events, period).withColumn(WEEK, F.lit(0))
    before = period.earlier(WEEK_MS)
    if before is None:
        return present
    return present.union(events_within(events, before).withColumn(WEEK, F.lit(1)))


def _date(at_ms: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).date()
