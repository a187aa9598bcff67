"""Counts the events present and missing of each process, and the lines that are no events.

Missing events are unknown, not lost messages.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.period import END_MS, EVERYTHING, Period
from cns_pipeline.schema import DATE, EVENT, FILE, MALFORMED, NEWER
from cns_pipeline.transforms.period_events import events_within, is_of_dates

NEAR_MS = 3_600_000
"""Numbers are given a moment after times, so that an event of the period may have a number between those of another:
events so near are looked at."""


def coverage(events: DataFrame, period: Period = EVERYTHING) -> DataFrame:
    """Return one row per start of a process with events in the period: `first_ms` and `last_ms` are their times.

    `events` counts those of the period. `unknown` are the numbers without an event, from the first number of the period
    to the last one. The numbers of a boot begin at 1, and its sealed segments name the last: these bound all events.
    Those of a period are bounded by what its own segments and events name.
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
    """Return a row per kind and segment of the lines that were kept aside: no events, and those of a newer version.

    Lines have no time but the date of their folder; one without a date may be of any period.
    """
    aside = events.where(F.col(EVENT).isin(MALFORMED, NEWER))
    if period != EVERYTHING:
        aside = aside.where(F.col(DATE).isNull() | is_of_dates(period))
    return aside.groupBy(EVENT, FILE).agg(F.count("*").alias("lines"))


def period_near(period: Period) -> Period:
    """The period, and `NEAR_MS` before and after it."""
    return Period(max(period.since_ms - NEAR_MS, 0), min(period.until_ms + NEAR_MS, END_MS))


def _with_known(bounds: DataFrame, events: DataFrame, period: Period) -> DataFrame:
    """Add how many numbers within the bounds have an event, in the period or near it."""
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
    """The first number that is expected in the period."""
    if period == EVERYTHING:
        return F.lit(1)
    numbered = F.when(F.col("sequence") > 0, F.col("sequence"))
    opened = F.when(F.col(EVENT) == "segment.opened", F.col("first_sequence"))
    return F.least(F.min(numbered), F.min(opened))
