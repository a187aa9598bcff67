"""Traffic by time of day over some days: of each topic, queue and endpoint, and of each kind in total."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_common.durations import HOUR_MS, HOUR_S
from cns_pipeline.schema import DATE, EVENT
from cns_pipeline.transforms.period_events import is_of_notification

TOPIC, QUEUE, ENDPOINT = "topic", "queue", "endpoint"
_DAY_HOURS = 24
_KEYS = ("kind", "name", "measure")


def hourly_traffic(events: DataFrame) -> DataFrame:
    """Return kind, name, measure, date, hour (0 to 23, UTC) and `number`.

    Measures: accepted of a topic; delivered and failed (attempts) of an endpoint; sent, received, deleted of a queue.
    """
    hour = F.floor(F.col("at_ms") / HOUR_MS) % _DAY_HOURS
    failed = F.col("outcome") == "failed"
    outcome = F.when(failed, "failed").otherwise("delivered")
    one = F.lit(1).cast("bigint")
    parts = (
        _part(events, "publish.accepted", TOPIC, F.col("topic"), F.lit("accepted"), one, hour),
        _part(events, "delivery.attempted", ENDPOINT, F.col("endpoint"), outcome, one, hour),
        *[
            _part(events, "queue.counted", QUEUE, F.col("queue"), F.lit(name), F.col(name), hour)
            for name in ("sent", "received", "deleted")
        ],
    )
    return (
        reduce(DataFrame.unionByName, parts)
        .groupBy(*_KEYS, DATE, "hour")
        .agg(F.sum("number").alias("number"))
        .select(*_KEYS, DATE, "hour", "number")
    )


def time_of_day(traffic: DataFrame, days: int) -> DataFrame:
    """Turn `hourly_traffic` of some days into a row for each kind, name, measure and hour of the day.

    `per_second` is the mean over all days, `busiest` the largest number of the hour on one day.
    """
    return (
        traffic.groupBy(*_KEYS, "hour")
        .agg(F.sum("number").alias("number"), F.max("number").alias("busiest"))
        .orderBy(*_KEYS, "hour")
        .select(*_KEYS, "hour", "number", (F.col("number") / (days * HOUR_S)).alias("per_second"), "busiest")
    )


def all_by_hour(by_time_of_day: DataFrame) -> DataFrame:
    """Sum over the names of each kind: at most 24 rows for each kind and measure."""
    return (
        by_time_of_day.groupBy("kind", "measure", "hour")
        .agg(F.sum("per_second").alias("per_second"))
        .orderBy("kind", "measure", "hour")
        .select("kind", "measure", "hour", "per_second")
    )


def _part(
    events: DataFrame, event: str, kind: str, name: Column, measure: Column, number: Column, hour: Column
) -> DataFrame:
    return events.where((F.col(EVENT) == event) & is_of_notification() & (name != "")).select(
        F.lit(kind).alias("kind"),
        name.alias("name"),
        measure.alias("measure"),
        DATE,
        hour.alias("hour"),
        number.alias("number"),
    )
