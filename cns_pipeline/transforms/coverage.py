"""How much of what each process said is here: what is missing is unknown, which is not the same as lost."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def coverage(events: DataFrame) -> DataFrame:
    """One row for each start of a process. Its numbers begin with 1 and its sealed segments name the last."""
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
