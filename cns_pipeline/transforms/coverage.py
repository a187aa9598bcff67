"""Counts the events present and missing of each process. Missing events are unknown, not lost messages."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def coverage(events: DataFrame) -> DataFrame:
    """Return one row per start of a process. Its events are numbered from 1; its sealed segments name the last."""
    return (
        events.where(F.col("boot").isNotNull())
        .groupBy("boot")
        .agg(
            F.max("process").alias("process"),
            F.count_if(F.col("sequence") > 0).alias("events"),
            F.greatest(F.max("sequence"), F.coalesce(F.max("last_sequence"), F.lit(0))).alias("last_sequence"),
            F.coalesce(F.sum("torn_bytes"), F.lit(0)).alias("torn_bytes"),
        )
        .select("process", "boot", "events", (F.col("last_sequence") - F.col("events")).alias("unknown"), "torn_bytes")
    )
