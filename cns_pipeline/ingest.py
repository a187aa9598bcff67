"""Ingests new segments into a Parquet table, partitioned by date and event; each line once.

Spark's checkpoint records the segments that were read, the table's own log (`_spark_metadata`) the valid files: after a
kill, the next run continues behind the last finished batch. Read the table with Spark, which respects that log.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import segment_lines
from cns_pipeline.schema import DATE, EVENT
from cns_pipeline.transforms.parse import parse_lines

FILES_PER_BATCH = 1_000


def ingest(
    spark: SparkSession, events: Path, paths: PipelinePaths, retention_s: int, files_per_batch: int = FILES_PER_BATCH
) -> int:
    """Ingest all new segments; return the number of new lines."""
    query = (
        parse_lines(segment_lines(spark, events, retention_s, files_per_batch))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(paths.checkpoint))
        .partitionBy(DATE, EVENT)
        .trigger(availableNow=True)
        .start(str(paths.table))
    )
    query.awaitTermination()
    return sum([progress.numInputRows for progress in query.recentProgress])
