"""Counts of each queue, summed over processes, and its latest depth."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import is_event, total

QUEUE_COUNTED = "queue.counted"
_COUNTS = ("sent", "received", "deleted", "moved_in", "moved_out")
_DEPTHS = ("visible", "in_flight", "delayed", "oldest_age_s")


def queues(events: DataFrame) -> DataFrame:
    """Return a row per queue. The depths are -1 if no process could read them."""
    depths = F.struct("at_ms", *_DEPTHS)
    latest = F.max(F.when(F.col("visible") >= 0, depths))
    return (
        events.where(is_event(QUEUE_COUNTED))
        .groupBy("queue")
        .agg(*[total(F.col(name)).alias(name) for name in _COUNTS], latest.alias("latest"))
        .repartition(1)
        .sortWithinPartitions(F.desc(F.col("sent") + F.col("received")), "queue")
        .select("queue", *_COUNTS, *[F.coalesce(F.col(f"latest.{name}"), F.lit(-1)).alias(name) for name in _DEPTHS])
    )
