"""The first deliveries that took longest."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HAS_TARGET, PLACE, WEEK

SLOWEST_ROWS = 50


def slowest(pairs: DataFrame) -> DataFrame:
    subscription = F.when(F.col("topic") != "", F.col(PLACE)).otherwise("")
    return (
        pairs.where((F.col(WEEK) == 0) & F.col(HAS_TARGET) & F.col("delivered_ms").isNotNull())
        .orderBy(F.desc("since_publish_ms"), "delivered_ms", "message_id", PLACE)
        .limit(SLOWEST_ROWS)
        .select(
            "message_id",
            "topic",
            subscription.alias("subscription"),
            "since_publish_ms",
            "attempts",
            F.col("delivered_ms").alias("at_ms"),
        )
    )
