"""Attempts, failures and answer times of each endpoint in slots, equal parts of time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT
from cns_pipeline.transforms.period_events import is_of_notification

P50_ACCURACY = 1_000
"""The rank error of a slot's median is at most a thousandth of its answers."""


def endpoint_slots(events: DataFrame, slot_ms: int, origin_ms: int = 0) -> DataFrame:
    """Return a row for each endpoint and slot with attempts. Slots begin at `origin_ms` plus multiples of `slot_ms`."""
    failed = F.col("outcome") == "failed"
    start_ms = F.col("at_ms") - F.pmod(F.col("at_ms") - origin_ms, F.lit(slot_ms))
    return (
        events.where((F.col(EVENT) == "delivery.attempted") & is_of_notification() & (F.col("endpoint") != ""))
        .groupBy("endpoint", start_ms.alias("slot_ms"))
        .agg(
            F.count("*").alias("attempts"),
            F.count_if(failed).alias("failed"),
            F.percentile_approx(F.when(~failed, F.col("duration_ms")), 0.5, P50_ACCURACY).alias("p50_ms"),
            F.min(F.when(failed, F.col("at_ms"))).alias("first_failed_ms"),
            F.max(F.when(failed, F.col("at_ms"))).alias("last_failed_ms"),
            F.mode(F.when(failed, F.struct("cause", "status")), True).alias("most"),
            F.max(F.when(failed, F.col("reason"))).alias("reason"),
        )
        .select(
            "endpoint",
            "slot_ms",
            "attempts",
            "failed",
            "p50_ms",
            "first_failed_ms",
            "last_failed_ms",
            "most.cause",
            "most.status",
            "reason",
        )
    )
