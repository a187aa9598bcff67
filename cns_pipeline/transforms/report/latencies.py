"""Times from publish to first delivery: counts of rounded times, and the percentiles from these."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HOUR, PLACE, WEEK
from cns_pipeline.transforms.report.pairs import LATENCY
from cns_pipeline.transforms.report.places import with_places
from cns_pipeline.transforms.report.tables import BY_PLACE, BY_TIME, ROW, rows_of_tables

PERMILLES = {"p50_ms": 500, "p90_ms": 900, "p99_ms": 990, "p999_ms": 999}


def latencies(ends: DataFrame, places: DataFrame) -> DataFrame:
    """Return a row per row of a table and rounded time: `deliveries`, `max_ms`."""
    timed = ends.where(F.col(LATENCY).isNotNull()).withColumnRenamed("delivered", "deliveries")
    counted = (LATENCY, "deliveries", "max_ms")
    by_place = with_places(timed.where(F.col(HOUR).isNull()).select(WEEK, PLACE, *counted), places)
    by_time = timed.where(F.col(HOUR).isNotNull()).select(WEEK, HOUR, *counted)
    rows = rows_of_tables(by_place, BY_PLACE).unionByName(rows_of_tables(by_time, BY_TIME))
    return rows.groupBy(WEEK, *ROW, LATENCY).agg(
        F.sum("deliveries").alias("deliveries"), F.max("max_ms").alias("max_ms")
    )


def percentiles(latencies: DataFrame) -> DataFrame:
    """Return the nearest-rank percentiles of each row: the least time that so many deliveries do not exceed."""
    row = Window.partitionBy("hash", WEEK, *ROW)  # the hash makes the sort compare numbers first
    until = row.orderBy(LATENCY).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = latencies.withColumn("hash", F.xxhash64(WEEK, *ROW)).select(
        WEEK,
        *ROW,
        LATENCY,
        "max_ms",
        F.sum("deliveries").over(until).alias("rank"),
        F.sum("deliveries").over(row).alias("all"),
    )
    return ranked.groupBy(WEEK, *ROW).agg(
        *[_percentile(permille).alias(name) for name, permille in PERMILLES.items()],
        F.max("max_ms").alias("max_ms"),
    )


def _percentile(permille: int) -> Column:
    return F.min(F.when(F.col("rank") * 1000 >= F.col("all") * permille, F.col(LATENCY)))
