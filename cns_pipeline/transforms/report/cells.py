"""All figures that are sums, by week, hour, topic and target, with what the target is."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HOUR, PLACE, WEEK
from cns_pipeline.transforms.report.places import with_places

SUMS = (
    "accepted",
    "accepted_bytes",
    "matched",
    "filtered",
    "pending",
    "retrying",
    "attempts",
    "attempts_failed",
    "delivered",
    "delivered_bytes",
    "dead_lettered",
    "dropped",
    "fanouts_dropped",
    "duplicates",
    "replay_matched",
    "replay_attempts",
    "replay_attempts_failed",
    "replayed",
    "replay_dead_lettered",
    "replay_dropped",
)


def cells(*parts: DataFrame, places: DataFrame) -> DataFrame:
    """Add up parts, each of which has some of the sums; what a part has no column for is 0 in it."""
    united = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS]
    return with_places(united.groupBy(WEEK, HOUR, PLACE).agg(*sums), places)
