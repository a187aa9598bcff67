"""Attempts, outcomes and delivery times of notifications by subscription.

A drop before the fan-out has no subscription: these are the row '' of their topic. Times are those of first deliveries:
a replay delivers what was published long ago.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT

NOTIFICATION = "Notification"
"""Confirmations are attempted as well, but not published."""
ACCURACY = 10_000
"""Spark's accuracy of percentiles: the rank error is at most 1 / ACCURACY of the rows."""


def deliveries(events: DataFrame) -> DataFrame:
    replayed = F.coalesce("replayed", F.lit(False))
    took_ms = F.when(_is("delivery.delivered") & ~replayed, F.col("since_publish_ms"))
    dropped = F.when(_is("notification.dropped"), F.coalesce("subscriptions", F.lit(1)))
    return (
        events.where((F.col("message_type") == NOTIFICATION) & F.col("subscription").isNotNull())
        .groupBy("topic", "subscription")
        .agg(
            F.count_if(_is("delivery.attempted")).alias("attempts"),
            F.count_if(_is("delivery.attempted") & (F.col("outcome") == "failed")).alias("attempts_failed"),
            F.count_if(_is("delivery.delivered")).alias("delivered"),
            F.count_if(_is("delivery.dead_lettered")).alias("dead_lettered"),
            F.coalesce(F.sum(dropped), F.lit(0)).alias("dropped"),
            F.count_if(dropped == 0).alias("fanouts_dropped"),
            F.count_if(_is("delivery.delivered") & replayed).alias("replayed"),
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
            "fanouts_dropped",
            "replayed",
            "p50_ms",
            "p99_ms",
        )
    )


def _is(event: str) -> Column:
    return F.col(EVENT) == event
