"""Judges each slot of an endpoint by its history: healthy, failing or slow."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cns_pipeline.transforms.health.keys import narrowest

HEALTHY, FAILING, SLOW = "healthy", "failing", "slow"

Z = 4.0
"""The lower bound, in standard deviations: one in thirty thousand slots exceeds it by chance."""
SHARE_MIN = 0.05
"""The retry policy copes with a smaller share of failures."""
SHARE_CERTAIN = 0.5
"""Above this share of failures an endpoint is failing, whatever its history."""
FAILURES_MIN = 3
AROUND_MS = 1_800_000
"""The time around the start of a slot: half an hour to each side."""
SPREAD = 5.0
"""The distance from the median, in robust standard deviations, that counts as a change."""
MAD_TO_SIGMA = 1.4826
"""The ratio of the standard deviation to the MAD of a normal distribution."""
RATIO_MIN = 2.0
SLOWER_MS_MIN = 100
"""A smaller increase of the median does not count as slow."""
SLOW_MS_CERTAIN = 5_000
"""Above this median an endpoint without history is slow: it is a third of the default timeout."""
ANSWERS_MIN = 5


def judged(slots: DataFrame, baselines: DataFrame) -> DataFrame:
    """Return the slots with `state`, the expected values, and `bound`: at least this share of attempts fails.

    A slot with few attempts has few failures: failures of the hour around it count as evidence, too.
    """
    around = Window.partitionBy("endpoint").orderBy("slot_ms").rangeBetween(-AROUND_MS, AROUND_MS)
    own = wilson_lower_bound(F.col("failed"), F.col("attempts"), Z)
    near = wilson_lower_bound(F.col("failed_around"), F.sum("attempts").over(around), Z)
    return (
        slots.join(baselines, on="endpoint", how="left")
        .withColumn("past", narrowest(F.col("expected"), F.col("slot_ms")))
        .withColumn("failed_around", F.sum("failed").over(around))
        .withColumn("bound", F.greatest(own, near))
        .select(
            *slots.columns,
            F.coalesce("past.hours", F.lit(0)).alias("history_hours"),
            F.col("past.share").alias("expected_share"),
            F.col("past.p50_ms").alias("expected_p50_ms"),
            "bound",
            F.when(_is_failing(), FAILING).when(_is_slow(), SLOW).otherwise(HEALTHY).alias("state"),
        )
    )


def wilson_lower_bound(failed: Column, attempts: Column, z: float) -> Column:
    """The lower end of Wilson's score interval of a share; it holds for few attempts, too."""
    share = failed / attempts
    centre = share + z * z / (2 * attempts)
    margin = z * F.sqrt(share * (1 - share) / attempts + z * z / (4 * attempts * attempts))
    return (centre - margin) / (1 + z * z / attempts)


def _is_failing() -> Column:
    usual = F.coalesce(
        F.greatest(F.col("past.share") * RATIO_MIN, F.col("past.share") + _sigma("past.share_mad") * SPREAD), F.lit(0.0)
    )
    most = F.least(F.greatest(usual, F.lit(SHARE_MIN)), F.lit(SHARE_CERTAIN))
    is_certain = (F.col("failed_around") >= FAILURES_MIN) & (F.col("bound") > most)
    return is_certain & (F.col("failed") / F.col("attempts") > most)


def _is_slow() -> Column:
    usual = F.greatest(
        F.col("past.p50_ms") * RATIO_MIN,
        F.col("past.p50_ms") + SLOWER_MS_MIN,
        F.col("past.p50_ms") + _sigma("past.p50_mad_ms") * SPREAD,
    )
    answers = F.col("attempts") - F.col("failed")
    return (answers >= ANSWERS_MIN) & (F.col("p50_ms") > F.coalesce(usual, F.lit(SLOW_MS_CERTAIN)))


def _sigma(mad: str) -> Column:
    return F.col(mad) * MAD_TO_SIGMA
