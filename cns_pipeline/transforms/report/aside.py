"""Counts the lines that were kept aside: those that are no events, and those of a newer version."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.period import EVERYTHING, Period
from cns_pipeline.schema import DATE, EVENT, FILE, MALFORMED, NEWER
from cns_pipeline.transforms.report.columns import is_event
from cns_pipeline.transforms.report.period_events import is_of_dates


def lines_aside(events: DataFrame, period: Period = EVERYTHING) -> DataFrame:
    """Return a row per kind and segment, of the dates of a period. Lines have no time but the date of their folder;
    one without a date may be of any period."""
    aside = events.where(is_event(MALFORMED, NEWER))
    if period != EVERYTHING:
        aside = aside.where(F.col(DATE).isNull() | is_of_dates(period))
    return aside.groupBy(EVENT, FILE).agg(F.count("*").alias("lines"))
