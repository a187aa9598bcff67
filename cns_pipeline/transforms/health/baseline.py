"""The baseline of each endpoint from its history: medians and their spread, for the same hour if there is enough data.

Medians and median absolute deviations (MAD) are over hours, so that one bad night in four weeks changes neither.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.health.keys import history_keys

HOURS_MIN = 3
"""The minimum of hours of history for a baseline."""
ATTEMPTS_MIN = 5
"""The minimum of attempts in an hour of history: with fewer, the share of failures is chance."""


def baselines(hours: DataFrame) -> DataFrame:
    """Turn the `endpoint_slots` of past hours into one row for each endpoint.

    `expected` maps a key of `history_keys` to a struct: hours, share and share_mad of failed attempts, p50_ms,
    p50_mad_ms.
    """
    share = F.col("failed") / F.col("attempts")
    figures = F.struct("hours", "share", "share_mad", "p50_ms", "p50_mad_ms")
    return (
        hours.where(F.col("attempts") >= ATTEMPTS_MIN)
        .select("endpoint", F.explode(history_keys(F.col("slot_ms"))).alias("key"), share.alias("share"), "p50_ms")
        .groupBy("endpoint", "key")
        .agg(
            F.count("*").alias("hours"),
            F.sort_array(F.collect_list("share")).alias("shares"),
            F.sort_array(F.collect_list("p50_ms")).alias("p50s"),
        )
        .where(F.col("hours") >= HOURS_MIN)
        .select("endpoint", "key", "hours", *_spread("shares", "share"), *_spread("p50s", "p50", "_ms"))
        .groupBy("endpoint")
        .agg(F.map_from_entries(F.collect_list(F.struct("key", figures))).alias("expected"))
        .select("endpoint", "expected")
    )


def _spread(values: str, name: str, unit: str = "") -> tuple[Column, Column]:
    """The median of a sorted array, and the median of the distances to it; null for an empty array."""
    median = _middle(F.col(values))
    distances = F.sort_array(F.transform(F.col(values), lambda value: F.abs(value - _middle(F.col(values)))))
    return median.alias(f"{name}{unit}"), _middle(distances).alias(f"{name}_mad{unit}")


def _middle(values: Column) -> Column:
    """The lower middle element of a sorted array."""
    return F.get(values, ((F.size(values) - 1) / 2).cast("int"))
