"""Figures that are sums over events, whatever other events there are: publishes, attempts, bytes, replays."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import (
    ACCEPTED,
    ATTEMPTED,
    DEAD_LETTERED,
    DELIVERED,
    DROPPED,
    HAS_TARGET,
    HOUR,
    PLACE,
    WEEK,
    is_event,
    is_failed_attempt,
    total,
)


def event_cells(notifications: DataFrame) -> DataFrame:
    """Return the sums by week, hour, place and the endpoint as the events name it.

    What `cns replay` publishes again is no accepted message, and its matches are a replay's.
    """
    replayed = F.col("replayed")
    without_target = is_event(DROPPED) & ~F.col(HAS_TARGET)
    subscriptions = F.col("subscriptions")
    return notifications.groupBy(WEEK, HOUR, PLACE, HAS_TARGET, "topic", "endpoint", "protocol").agg(
        F.count_if(is_event(ACCEPTED) & ~replayed).alias("accepted"),
        total(F.when(is_event(ACCEPTED) & ~replayed, F.col("size_bytes"))).alias("accepted_bytes"),
        total(F.when(is_event(ACCEPTED) & ~replayed, F.col("matched"))).alias("matched"),
        total(F.when(is_event(ACCEPTED) & replayed, F.col("matched"))).alias("replay_matched"),
        F.count_if(is_event(ATTEMPTED) & ~replayed).alias("attempts"),
        F.count_if(is_failed_attempt() & ~replayed).alias("attempts_failed"),
        total(F.when(is_event(DELIVERED), F.col("size_bytes"))).alias("delivered_bytes"),
        total(F.when(without_target & ~replayed, subscriptions)).alias("dropped"),
        F.count_if(without_target & (subscriptions == 0)).alias("fanouts_dropped"),
        F.count_if(is_event(ATTEMPTED) & replayed).alias("replay_attempts"),
        F.count_if(is_failed_attempt() & replayed).alias("replay_attempts_failed"),
        F.count_if(is_event(DELIVERED) & replayed).alias("replayed"),
        F.count_if(is_event(DEAD_LETTERED) & replayed).alias("replay_dead_lettered"),
        total(F.when(is_event(DROPPED) & replayed, subscriptions)).alias("replay_dropped"),
    )
