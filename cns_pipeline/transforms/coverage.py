"""Counts the present and missing events of each process, and the lines that are not events.

A missing event leaves facts unknown; it does not mean that a message was lost.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.period import END_MS, EVERYTHING, Period
from cns_pipeline.schema import DATE, EVENT, FILE, MALFORMED, NEWER
from cns_pipeline.transforms.period_events import events_within, is_of_dates

NEAR_MS = 3_600_000
"""An event gets its number shortly after its time, so an event outside the period may have a number inside it: events
within this time around the period are read."""


def coverage(events: DataFrame, period: Period = EVERYTHING) -> DataFrame:
    """Return one row per boot (a start of a process) with events in the period; `first_ms` and `last_ms` are their
    times.

    `events` counts the events of the period, `unknown` the numbers without an event from its first to its last number.
    The numbers of a boot begin at 1 and end with that of its last sealed segment; a period's own events and segments
    give its first and last number.
    """
    own = events_within(events, period).where(F.col("boot").isNotNull())
    bounds = own.groupBy("boot").agg(
        F.max("process").alias("process"),
        _first(period).alias("first"),
        F.greatest(F.max("sequence"), F.coalesce(F.max("last_sequence"), F.lit(0))).alias("last"),
        F.count_if(F.col("sequence") > 0).alias("events"),
        F.coalesce(F.sum("torn_bytes"), F.lit(0)).alias("torn_bytes"),
        F.min(F.when(F.col("sequence") > 0, F.col("at_ms"))).alias("first_ms"),
        F.max(F.when(F.col("sequence") > 0, F.col("at_ms"))).alias("last_ms"),
    )
    numbers = F.greatest(F.col("last") - F.col("first") + 1, F.lit(0))
    return _with_known(bounds, events, period).select(
        "process",
        "boot",
        "events",
        (numbers - F.col("known")).alias("unknown"),
        "torn_bytes",
        "first_ms",
        "last_ms",
    )


def lines_aside(events: DataFrame, period: Period = EVERYTHING) -> DataFrame:
    """Return a row per kind and segment of lines that were kept aside: malformed lines, and lines of a newer version.

    A line has the date of its folder, but no time; a line without a date may be of any period.
    """
    aside = events.where(F.col(EVENT).isin(MALFORMED, NEWER))
    if period != EVERYTHING:
        aside = aside.where(F.col(DATE).isNull() | is_of_dates(period))
    return aside.groupBy(EVENT, FILE).agg(F.count("*").alias("lines"))


def period_near(period: Period) -> Period:
    """The period extended by `NEAR_MS` at both ends."""
    return Period(max(period.since_ms - NEAR_MS, 0), min(period.until_ms + NEAR_MS, END_MS))


def _with_known(bounds: DataFrame, events: DataFrame, period: Period) -> DataFrame:
    """Count the numbers within the bounds that have an event in or near the period."""
    if period == EVERYTHING:
        return bounds.withColumn("known", F.col("events"))
    near = period_near(period)
    is_outside = (F.col("at_ms") < period.since_ms) | (F.col("at_ms") >= period.until_ms)
    others = (
        events_within(events, near)
        .where(is_outside & (F.col("sequence") > 0))
        .select("boot", "sequence")
        .join(F.broadcast(bounds.select("boot", "first", "last")), on="boot", how="inner")
        .where(F.col("sequence").between(F.col("first"), F.col("last")))
        .groupBy("boot")
        .agg(F.count("*").alias("others"))
    )
    known = F.col("events") + F.coalesce("others", F.lit(0))
    return bounds.join(others, on="boot", how="left").withColumn("known", known)


def _first(period: Period) -> Column:
    """The first expected number of the period."""
    if period == EVERYTHING:
        return F.lit(1)
    numbered = F.when(F.col("sequence") > 0, F.col("sequence"))
    opened = F.when(F.col(EVENT) == "segment.opened", F.col("first_sequence"))
    return F.least(F.min(numbered), F.min(opened))
