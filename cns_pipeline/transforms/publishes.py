"""Accepted publishes by topic: their number and bytes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT


def publishes(events: DataFrame) -> DataFrame:
    is_publish = F.col(EVENT) == "publish.accepted"
    return (
        events.where(is_publish)
        .groupBy("topic")
        .agg(F.count("*").alias("accepted"), F.sum("size_bytes").alias("accepted_bytes"))
        .select("topic", "accepted", "accepted_bytes")
    )
