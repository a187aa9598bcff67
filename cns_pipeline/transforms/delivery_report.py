"""One row per topic and subscription, the busiest first: accepted, attempts, outcomes, times."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def delivery_report(publishes: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Join the frames of `publishes` and `deliveries`.

    A topic without subscriptions has a row, and so has a subscription whose topic's publishes are not among the events.
    """
    ended = F.col("delivered") + F.col("dead_lettered") + F.col("dropped")
    return (
        publishes.join(deliveries, on="topic", how="full_outer")
        .orderBy(F.desc_nulls_last("attempts"), "topic", "subscription")
        .select(
            "topic",
            "subscription",
            F.coalesce("accepted", F.lit(0)).alias("accepted"),
            F.coalesce("attempts", F.lit(0)).alias("attempts"),
            F.coalesce("attempts_failed", F.lit(0)).alias("attempts_failed"),
            F.coalesce("delivered", F.lit(0)).alias("delivered"),
            F.coalesce("dead_lettered", F.lit(0)).alias("dead_lettered"),
            F.coalesce("dropped", F.lit(0)).alias("dropped"),
            F.coalesce("fanouts_dropped", F.lit(0)).alias("fanouts_dropped"),
            F.coalesce("replayed", F.lit(0)).alias("replayed"),
            F.when(ended > 0, F.col("delivered") / ended).alias("success_share"),
            "p50_ms",
            "p99_ms",
        )
    )
