"""Matched deliveries that did not end, by the hour in which their message was accepted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HOUR, PLACE, WEEK, hour_of


def pending_cells(pairs: DataFrame) -> DataFrame:
    """Count for messages accepted in the period: a match whose event is unknown makes no other message's less."""
    ended = F.coalesce("delivered_ms", "dead_lettered_ms", "dropped_ms").isNotNull()
    of_direct = F.substring_index(PLACE, " ", 2)
    own_place = F.when(F.col("topic") != "", F.col("topic")).otherwise(of_direct)  # no text is added up: that sorts
    pending = F.greatest(F.col("matched") - F.col("ended"), F.lit(0))
    return (
        pairs.groupBy(WEEK, own_place.alias(PLACE), "message_id")
        .agg(
            F.min("accepted_ms").alias("accepted_ms"),
            F.sum("matched").alias("matched"),
            F.count_if(ended).alias("ended"),
        )
        .where(F.col("accepted_ms").isNotNull())
        .groupBy(WEEK, hour_of("accepted_ms").alias(HOUR), PLACE)
        .agg(F.sum(pending).alias("pending"))
    )
