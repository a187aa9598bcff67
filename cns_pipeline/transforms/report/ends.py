"""The ends of each (message, target), added up in one pass for all figures of the report that use them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HAS_TARGET, HOUR, PLACE, WEEK, hour_of
from cns_pipeline.transforms.report.pairs import LATENCY

MADE = "made"
"""The attempts made until the end."""
OUTCOMES = ("delivered", "duplicates", "dead_lettered", "dropped", "retrying")
_MAX = "since_publish_ms"
_SETS = ((WEEK, PLACE, HOUR), (WEEK, PLACE, LATENCY), (WEEK, HOUR, LATENCY), (WEEK, MADE))


def ends(pairs: DataFrame) -> DataFrame:
    """Return the sums `OUTCOMES` and `max_ms`, by place and hour, by place and rounded time, by hour and rounded time,
    and by attempts. In a row the keys that it is not by are null.

    A pair counts in the hours of its ends, its duplicates in that of the first delivery; if it only failed, in that
    of its first failure.
    """
    has_ended = F.coalesce("delivered_ms", "dead_lettered_ms", "dropped_ms").isNotNull()
    parts = F.array(
        _end("delivered_ms", "attempts", F.col(LATENCY), delivered=F.lit(1), duplicates=F.col("deliveries") - 1),
        _end("dead_lettered_ms", "dead_letter_attempts", dead_lettered=F.lit(1)),
        _end("dropped_ms", "drop_attempts", dropped=F.lit(1)),
        _end("failed_ms", None, retrying=F.when(has_ended, 0).otherwise(1)),
    )
    keys = (WEEK, PLACE, HOUR, LATENCY, MADE)
    return (
        pairs.where(HAS_TARGET)
        .select(WEEK, PLACE, _MAX, F.inline(parts))
        .where(F.col(HOUR).isNotNull())
        .groupingSets(_SETS, *keys)
        .agg(*[F.sum(name).alias(name) for name in OUTCOMES], F.max(_MAX).alias("max_ms"))
        .select(*keys, *OUTCOMES, "max_ms")
    )


def outcome_cells(ends: DataFrame) -> DataFrame:
    """Return the sums by week, hour and place."""
    return ends.where(F.col(PLACE).isNotNull() & F.col(HOUR).isNotNull()).select(WEEK, HOUR, PLACE, *OUTCOMES)


def _end(at_ms: str, made: str | None, latency: Column | None = None, **counts: Column) -> Column:
    none = F.lit(None).cast("long")
    return F.struct(
        hour_of(at_ms).alias(HOUR),
        (none if latency is None else latency).alias(LATENCY),
        (none if made is None else F.col(made)).alias(MADE),
        *[counts.get(name, F.lit(0)).cast("long").alias(name) for name in OUTCOMES],
    )
