"""Failed attempts by cause, status and phase; drops and dead letters by cause. Replays are among them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import (
    DEAD_LETTERED,
    DROPPED,
    is_event,
    is_failed_attempt,
    is_of_notification,
    total,
)


def failures(events: DataFrame) -> DataFrame:
    return (
        events.where(is_failed_attempt() & is_of_notification())
        .groupBy("cause", "status", "phase")
        .agg(
            F.count("*").alias("attempts"),
            F.count_distinct("subscription").alias("subscriptions"),
            F.min("at_ms").alias("first_ms"),
            F.max("at_ms").alias("last_ms"),
            F.coalesce(F.max("reason"), F.lit("")).alias("reason"),
        )
        .repartition(1)
        .sortWithinPartitions(F.desc("attempts"), "cause", "status", "phase")
    )


def drops(events: DataFrame) -> DataFrame:
    subscriptions = F.coalesce("subscriptions", F.lit(1))
    by_target = (
        events.where(is_event(DROPPED) & is_of_notification())
        .groupBy("cause", *_target())
        .agg(
            F.count("*").alias("events"),
            total(subscriptions).alias("subscriptions"),
            F.count_if(subscriptions == 0).alias("fanouts"),
        )
    )
    numbers = [F.sum(name).alias(name) for name in ("events", "subscriptions", "fanouts")]
    return (
        by_target.groupBy("cause")
        .agg(*numbers, _most(F.col("subscriptions") + F.col("fanouts")))
        .select("cause", "events", "subscriptions", "fanouts", "most.topic", "most.endpoint", "most.most")
        .repartition(1)
        .sortWithinPartitions(F.desc("subscriptions"), F.desc("fanouts"), "cause")
    )


def dead_letters(events: DataFrame) -> DataFrame:
    return (
        events.where(is_event(DEAD_LETTERED) & is_of_notification())
        .groupBy("cause", "queue", *_target())
        .agg(F.count("*").alias("messages"))
        .groupBy("cause", "queue")
        .agg(F.sum("messages").alias("messages"), _most(F.col("messages")))
        .select("cause", "queue", "messages", "most.topic", "most.endpoint", "most.most")
        .repartition(1)
        .sortWithinPartitions(F.desc("messages"), "cause", "queue")
    )


def _target() -> tuple[Column, ...]:
    return tuple([F.coalesce(name, F.lit("")).alias(name) for name in ("topic", "endpoint")])


def _most(number: Column) -> Column:
    """The topic and endpoint with the highest number, and this number."""
    return F.max(F.struct(number.alias("most"), "topic", "endpoint")).alias("most")
