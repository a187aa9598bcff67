"""The histogram of times from publish to first delivery, in bins that double."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import WEEK
from cns_pipeline.transforms.report.pairs import LATENCY
from cns_pipeline.transforms.report.tables import TABLE, TOTALS


def latency_bins(latencies: DataFrame) -> DataFrame:
    """Return a row per bin that is not empty: its lowest time, 0 or a power of 2. Rounded times stay in their bin."""
    power = F.pow(F.lit(2), F.length(F.bin(LATENCY)) - 1).cast("long")
    return (
        latencies.where((F.col(WEEK) == 0) & (F.col(TABLE) == TOTALS))
        .groupBy(F.when(F.col(LATENCY) > 0, power).otherwise(0).alias("from_ms"))
        .agg(F.sum("deliveries").alias("deliveries"))
        .repartition(1)
        .sortWithinPartitions("from_ms")
    )
