"""Joins adjacent slots in which an endpoint was failing or slow into one incident."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cns_pipeline.transforms.health.judgement import FAILING, HEALTHY

SLOTS_BETWEEN_MAX = 1
"""Slots between two unhealthy ones that an incident may include: an open circuit breaker lets few attempts through."""


def incidents(judged: DataFrame, slot_ms: int) -> DataFrame:
    """Turn the frame of `judged` into a row for each incident: endpoint, state, start and end.

    A failing endpoint's incident lasts from its first to its last failed attempt, a slow one's over whole slots.
    Attempts and failures are those of the unhealthy slots, `p50_ms` that of the slot with the most attempts.
    """
    by_time = Window.partitionBy("endpoint", "state").orderBy("slot_ms")
    gap_ms = F.col("slot_ms") - F.lag("slot_ms").over(by_time)
    begins = F.coalesce(gap_ms > slot_ms * (1 + SLOTS_BETWEEN_MAX), F.lit(True))
    return (
        judged.where(F.col("state") != HEALTHY)
        .withColumn("begins", begins.cast("int"))
        .withColumn("number", F.sum("begins").over(by_time))
        .groupBy("endpoint", "state", "number")
        .agg(
            F.min(_time("first_failed_ms", F.col("slot_ms"))).alias("from_ms"),
            F.max(_time("last_failed_ms", F.col("slot_ms") + slot_ms)).alias("until_ms"),
            F.sum("attempts").alias("attempts"),
            F.sum("failed").alias("failed"),
            F.max_by("p50_ms", "attempts").alias("p50_ms"),
            F.max_by("expected_share", "attempts").alias("expected_share"),
            F.max_by("expected_p50_ms", "attempts").alias("expected_p50_ms"),
            F.max_by(F.struct("cause", "status", "reason"), "failed").alias("most"),
        )
        .select(
            "endpoint",
            "state",
            "from_ms",
            "until_ms",
            "attempts",
            "failed",
            "p50_ms",
            "expected_share",
            "expected_p50_ms",
            "most.cause",
            "most.status",
            "most.reason",
        )
    )


def _time(failure: str, otherwise: Column) -> Column:
    return F.when(F.col("state") == FAILING, F.col(failure)).otherwise(otherwise)
