"""Counts of deliveries by the number of attempts until they ended."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import WEEK
from cns_pipeline.transforms.report.ends import MADE

RETRY_BIN_MAX = 100
"""The last bin has all that took more attempts."""
_ENDS = ("delivered", "dead_lettered", "dropped")


def retries(ends: DataFrame) -> DataFrame:
    """Return a row per number of attempts: pairs by their end."""
    return (
        ends.where((F.col(WEEK) == 0) & F.col(MADE).isNotNull())
        .groupBy(F.least(MADE, F.lit(RETRY_BIN_MAX)).alias("attempts"))
        .agg(*[F.sum(end).alias(end) for end in _ENDS])
        .repartition(1)
        .sortWithinPartitions("attempts")
    )
