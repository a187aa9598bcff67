"""Attempts, outcomes and delivery times of notifications by subscription."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT

NOTIFICATION = "Notification"
"""Confirmations are attempted as well, but not published."""
ACCURACY = 10_000
"""Spark's accuracy of percentiles: the rank error is at most 1 / ACCURACY of the rows."""


def deliveries(events: DataFrame) -> DataFrame:
    of_a_subscription = (F.col("message_type") == NOTIFICATION) & (F.col("subscription") != "")
    took_ms = F.when(_is("delivery.delivered"), F.col("since_publish_ms"))
    return (
        events.where(of_a_subscription)
        .groupBy("topic", "subscription")
        .agg(
            F.count_if(_is("delivery.attempted")).alias("attempts"),
            F.count_if(_is("delivery.attempted") & (F.col("outcome") == "failed")).alias("attempts_failed"),
            F.count_if(_is("delivery.delivered")).alias("delivered"),
            F.count_if(_is("delivery.dead_lettered")).alias("dead_lettered"),
            F.count_if(_is("notification.dropped")).alias("dropped"),
            F.percentile_approx(took_ms, 0.5, ACCURACY).alias("p50_ms"),
            F.percentile_approx(took_ms, 0.99, ACCURACY).alias("p99_ms"),
        )
        .select(
            "topic",
            "subscription",
            "attempts",
            "attempts_failed",
            "delivered",
            "dead_lettered",
            "dropped",
            "p50_ms",
            "p99_ms",
        )
    )


def _is(event: str) -> Column:
    return F.col(EVENT) == event
