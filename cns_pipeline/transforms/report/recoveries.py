"""Runs of failed attempts of an endpoint between two successes, of all its subscriptions."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import ATTEMPTED, is_event, is_failed_attempt, is_of_notification


def recoveries(events: DataFrame) -> DataFrame:
    """Return a row per run, the longest first. Attempts of the same time are in the order of process and number.

    An endpoint without a failure has no run, and one that the events do not name is left out.
    """
    attempts = events.where(
        is_event(ATTEMPTED) & is_of_notification() & (F.coalesce("endpoint", F.lit("")) != "")
    ).select("endpoint", "at_ms", "boot", "sequence", is_failed_attempt().alias("failed"))
    failing = attempts.where("failed").select("endpoint").distinct()
    order = Window.partitionBy("endpoint").orderBy("at_ms", "boot", "sequence")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    succeeded_ms = F.when(~F.col("failed"), F.col("at_ms"))
    run = F.coalesce(F.count(succeeded_ms).over(earlier), F.lit(0))
    lasted_ms = F.coalesce("recovered_at_ms", "last_failed_ms") - F.col("failed_from_ms")
    return (
        attempts.join(failing, on="endpoint", how="left_semi")
        .withColumn("run", run)
        .groupBy("endpoint", "run")
        .agg(
            F.min(F.when(F.col("failed"), F.col("at_ms"))).alias("failed_from_ms"),
            F.max(F.when(F.col("failed"), F.col("at_ms"))).alias("last_failed_ms"),
            F.min(succeeded_ms).alias("recovered_at_ms"),
            F.count_if("failed").alias("failures"),
        )
        .where(F.col("failures") > 0)
        .repartition(1)
        .sortWithinPartitions(F.desc(lasted_ms), F.desc("failures"), "endpoint", "failed_from_ms")
        .select("endpoint", "failed_from_ms", "recovered_at_ms", "last_failed_ms", "failures")
    )
