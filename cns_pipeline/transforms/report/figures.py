"""The rows of all tables of figures, each beside itself a week before."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.cells import SUMS
from cns_pipeline.transforms.report.columns import WEEK
from cns_pipeline.transforms.report.latencies import PERMILLES
from cns_pipeline.transforms.report.tables import BY_PLACE, BY_TARGET, BY_TIME, ROW, TABLE, rows_of_tables

OF_TOPICS = ("accepted", "accepted_bytes", "matched", "filtered", "pending", "replay_matched")
"""Events name these by topic: they are null in the tables by target."""
TIMES = (*PERMILLES, "max_ms")
PRESENT, BEFORE = "present", "before"


def figures(cells: DataFrame, percentiles: DataFrame) -> DataFrame:
    """Return the columns `ROW`, and the structs `present` and `before`, which is null for a row that was not there.

    A row that was only there a week before has figures of 0.
    """
    sums = rows_of_tables(cells, (*BY_PLACE, *BY_TIME)).groupBy(WEEK, *ROW).agg(*[F.sum(n).alias(n) for n in SUMS])
    rows = sums.join(percentiles, on=[WEEK, *ROW], how="left").select(WEEK, *ROW, _figures().alias("figures"))
    present = rows.where(F.col(WEEK) == 0).select(*ROW, F.col("figures").alias(PRESENT))
    before = rows.where(F.col(WEEK) == 1).select(*ROW, F.col("figures").alias(BEFORE))
    return present.join(before, on=list(ROW), how="full_outer").select(
        *ROW, F.coalesce(PRESENT, _nothing()).alias(PRESENT), BEFORE
    )


def _figures() -> Column:
    ended = F.col("delivered") + F.col("dead_lettered") + F.col("dropped")
    share = F.when(ended > 0, F.col("delivered") / ended)
    return F.struct(*[_sum(name).alias(name) for name in SUMS], share.alias("success_share"), *TIMES)


def _sum(name: str) -> Column:
    return F.when(~_is_of_target(), F.col(name)) if name in OF_TOPICS else F.col(name)


def _nothing() -> Column:
    zero = F.lit(0).cast("long")
    sums = [(F.when(~_is_of_target(), zero) if name in OF_TOPICS else zero).alias(name) for name in SUMS]
    times = [F.lit(None).cast("long").alias(name) for name in TIMES]
    return F.struct(*sums, F.lit(None).cast("double").alias("success_share"), *times)


def _is_of_target() -> Column:
    return F.col(TABLE).isin(*BY_TARGET)
