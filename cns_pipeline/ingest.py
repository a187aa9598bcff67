"""Segments into a Parquet table, partitioned by date and event: what is new since the last time, and each line once.

Spark's checkpoint says which segments were read, the table's own log (`_spark_metadata`) which files count: a run that
was killed is taken up where its last finished batch ended. Read the table with Spark, which heeds that log.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from cns_pipeline.paths import Places
from cns_pipeline.read import segment_lines
from cns_pipeline.schema import DATE, EVENT
from cns_pipeline.transforms.parsed import parsed

FILES_A_BATCH = 1_000


def ingest(
    spark: SparkSession, events: Path, places: Places, retention_s: int, files_a_batch: int = FILES_A_BATCH
) -> int:
    """The number of lines that were new."""
    query = (
        parsed(segment_lines(spark, events, retention_s, files_a_batch))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(places.checkpoint))
        .partitionBy(DATE, EVENT)
        .trigger(availableNow=True)
        .start(str(places.table))
    )
    query.awaitTermination()
    return sum([progress.numInputRows for progress in query.recentProgress])
