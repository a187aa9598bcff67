"""Counts of the subscriptions that fan-outs found and filters left out; of a repeated fan-out the latest counts."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import FILTERED, HOUR, MATCHED, PLACE, WEEK, hour_of, is_event

_MESSAGE = (WEEK, "topic", PLACE, "message_id")


def matches(notifications: DataFrame) -> DataFrame:
    """Return a row per message and part of its fan-out, or replay: `matched`, `replayed`, `at_ms`."""
    return (
        notifications.where(is_event(MATCHED))
        .groupBy(*_MESSAGE, "part", "replayed")
        .agg(F.max(F.struct("at_ms", "matched")).alias("latest"))
        .select(*_MESSAGE, "replayed", "latest.at_ms", "latest.matched")
    )


def match_cells(matches: DataFrame) -> DataFrame:
    matched = F.col("matched")
    return (
        matches.groupBy(WEEK, hour_of("at_ms").alias(HOUR), PLACE)
        .agg(
            F.sum(F.when(F.col("replayed"), 0).otherwise(matched)).alias("matched"),
            F.sum(F.when(F.col("replayed"), matched).otherwise(0)).alias("replay_matched"),
        )
        .select(WEEK, HOUR, PLACE, "matched", "replay_matched")
    )


def filter_cells(notifications: DataFrame) -> DataFrame:
    return (
        notifications.where(is_event(FILTERED))
        .groupBy(*_MESSAGE)
        .agg(F.max(F.struct("at_ms", "filtered")).alias("latest"))
        .select(WEEK, PLACE, "latest.*")
        .groupBy(WEEK, hour_of("at_ms").alias(HOUR), PLACE)
        .agg(F.sum("filtered").alias("filtered"))
    )
