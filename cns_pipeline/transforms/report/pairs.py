"""The outcome of each (message, target), however often a crash repeated an event; replays are left out.

Rows without a target are of the message itself: when it was accepted, and how many subscriptions it matched.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT
from cns_pipeline.transforms.report.columns import (
    ACCEPTED,
    ATTEMPTED,
    DEAD_LETTERED,
    DELIVERED,
    DROPPED,
    HAS_TARGET,
    MATCHED,
    PLACE,
    WEEK,
    is_event,
    is_failed_attempt,
)

LATENCY = "latency_ms"
"""Times from publish to delivery, rounded down to `LATENCY_BITS` significant bits: the fineness of percentiles."""
LATENCY_BITS = 8
PARTITIONS = 32
"""So many partitions that the pairs of some million deliveries are added up in a small heap. Adaptive execution would
merge them to as many as there are cores."""
_KEYS = (WEEK, "topic", PLACE, HAS_TARGET, "message_id")
_INPUT = (*_KEYS, EVENT, "at_ms", "attempt", "since_publish_ms", "matched")


def pairs(notifications: DataFrame, matches: DataFrame) -> DataFrame:
    """Return a row per (message, target), and per message. All rows of a message are in one partition.

    `delivered_ms`, `since_publish_ms` and `attempts` are of the first delivery, of `deliveries`; what was delivered
    before its publish, by another machine's clock, took 0 ms. `dead_lettered_ms`, `dropped_ms` and `failed_ms` are the
    first times; the attempts are those made. All are null if it did not happen.
    """
    of_targets = F.col(HAS_TARGET) & (is_event(DELIVERED, DEAD_LETTERED, DROPPED) | is_failed_attempt())
    own = notifications.where(~F.col("replayed") & (of_targets | is_event(ACCEPTED)))
    return (
        own.select(*_INPUT)
        .unionByName(_as_events(matches), allowMissingColumns=True)
        .repartition(PARTITIONS, "message_id")
        .groupBy(*_KEYS)
        .agg(
            F.min(_when(ACCEPTED, "at_ms")).alias("accepted_ms"),
            F.sum("matched").alias("matched"),
            F.count_if(is_event(DELIVERED)).alias("deliveries"),
            F.min(_when(DELIVERED, "at_ms")).alias("delivered_ms"),
            F.min(F.when(is_event(DELIVERED), F.greatest("since_publish_ms", F.lit(0)))).alias("since_publish_ms"),
            F.min(_when(DELIVERED, "attempt")).alias("attempts"),
            F.min(_when(DEAD_LETTERED, "at_ms")).alias("dead_lettered_ms"),
            F.max(_when(DEAD_LETTERED, "attempt")).alias("dead_letter_attempts"),
            F.min(_when(DROPPED, "at_ms")).alias("dropped_ms"),
            F.max(_when(DROPPED, "attempt")).alias("drop_attempts"),
            F.min(_when(ATTEMPTED, "at_ms")).alias("failed_ms"),
        )
        .withColumn(LATENCY, _rounded("since_publish_ms"))
    )


def _as_events(matches: DataFrame) -> DataFrame:
    columns = (WEEK, "topic", PLACE, "message_id", "at_ms", "matched")
    added = (F.lit(False).alias(HAS_TARGET), F.lit(MATCHED).alias(EVENT))
    return matches.where(~F.col("replayed")).select(*columns, *added)


def _when(event: str, column: str) -> Column:
    return F.when(is_event(event), F.col(column))


def _rounded(name: str) -> Column:
    """Clear all but the highest bits."""
    low = F.greatest(F.length(F.bin(name)) - LATENCY_BITS, F.lit(0))
    return F.col(name) - F.col(name) % F.pow(F.lit(2), low).cast("long")
