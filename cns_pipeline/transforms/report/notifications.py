"""The events of notifications, each with its place."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT
from cns_pipeline.transforms.report.columns import (
    HAS_TARGET,
    HOUR,
    OF_NOTIFICATIONS,
    OF_TARGETS,
    PLACE,
    WEEK,
    hour_of,
    is_event,
    is_of_notification,
)

DIRECT = ":endpoint/"
"""The mark of a mobile endpoint's ARN, for direct publishes; a topic's ARN lacks it."""


def notifications(events: DataFrame) -> DataFrame:
    """Drop confirmations and what is no event of a notification. Nulls become defaults: '', 0 and false."""
    topic = F.when(F.col("topic").contains(DIRECT), "").otherwise(F.col("topic"))
    return (
        events.where(is_event(*OF_NOTIFICATIONS) & is_of_notification())
        .withColumn("topic", topic)
        .select(
            WEEK,
            EVENT,
            "at_ms",
            hour_of("at_ms").alias(HOUR),
            "message_id",
            "topic",
            _place().alias(PLACE),
            _has_target().alias(HAS_TARGET),
            text("endpoint").alias("endpoint"),
            text("protocol").alias("protocol"),
            "outcome",
            "attempt",
            "since_publish_ms",
            F.coalesce("size_bytes", F.lit(0)).alias("size_bytes"),
            F.coalesce("matched", F.lit(0)).alias("matched"),
            text("part").alias("part"),
            "filtered",
            F.coalesce("subscriptions", F.lit(1)).alias("subscriptions"),
            F.coalesce("replayed", F.lit(False)).alias("replayed"),
        )
    )


def text(name: str) -> Column:
    return F.coalesce(name, F.lit(""))


def _place() -> Column:
    direct = F.concat_ws(" ", F.lit("direct"), text("account"))
    to_endpoint = F.concat_ws(" ", direct, text("protocol"), text("endpoint"))
    return (
        F.when(text("subscription") != "", F.col("subscription"))
        .when(F.col("topic") != "", F.col("topic"))
        .when(is_event(*OF_TARGETS), to_endpoint)
        .otherwise(direct)
    )


def _has_target() -> Column:
    return (text("subscription") != "") | ((F.col("topic") == "") & is_event(*OF_TARGETS))
