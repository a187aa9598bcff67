"""Usage by account and day, for billing: requests as the API counted them, and deliveries.

The requests of a day on which none were counted at all, of no account, are unknown: null.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HOUR, WEEK, is_event

REQUESTS_COUNTED = "requests.counted"
OF_REQUESTS = ("requests", "errors", "request_bytes", "response_bytes")
OF_NOTIFICATIONS = ("published", "published_bytes", "deliveries", "delivered_bytes")


def requests(events: DataFrame) -> DataFrame:
    """Return a row per account and day."""
    return (
        events.where(is_event(REQUESTS_COUNTED))
        .groupBy("account", F.date_format(F.timestamp_millis("at_ms"), "yyyy-MM-dd").alias("day"))
        .agg(*[F.sum(name).alias(name) for name in OF_REQUESTS])
    )


def usage(cells: DataFrame, requests: DataFrame) -> DataFrame:
    """Return a row per account and day. All deliveries count, duplicates and replays too."""
    deliveries = F.col("delivered") + F.col("duplicates") + F.col("replayed")
    notified = cells.where(F.col(WEEK) == 0).select(
        "account",
        F.date_format(F.timestamp_millis(F.col(HOUR)), "yyyy-MM-dd").alias("day"),
        F.col("accepted").alias("published"),
        F.col("accepted_bytes").alias("published_bytes"),
        deliveries.alias("deliveries"),
        "delivered_bytes",
    )
    return (
        notified.unionByName(requests, allowMissingColumns=True)
        .groupBy("account", "day")
        .agg(*[F.sum(name).alias(name) for name in (*OF_REQUESTS, *OF_NOTIFICATIONS)])
        .repartition(1)
        .select("account", "day", *_requests_if_counted(), *[_or_0(name) for name in OF_NOTIFICATIONS])
        .sortWithinPartitions("account", "day")
    )


def _requests_if_counted() -> list[Column]:
    counted = F.max("requests").over(Window.partitionBy("day")).isNotNull()
    return [F.when(counted, _or_0(name)).alias(name) for name in OF_REQUESTS]


def _or_0(name: str) -> Column:
    return F.coalesce(name, F.lit(0)).alias(name)
