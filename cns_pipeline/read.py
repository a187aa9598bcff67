"""Reads frames: the segments as a stream of lines, and the ingested events as a table."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_common.events.files import SEALED
from cns_pipeline.schema import FILE, table_schema
from cns_pipeline.transforms.parse import TEXT

MARGIN_S = 24 * 3_600


def segment_lines(spark: SparkSession, events: Path, retention_s: int, files_per_batch: int) -> DataFrame:
    """Return a stream of the lines of sealed segments, each segment once.

    Spark remembers the names of the segments it has read, until the retention has removed them.
    """
    return (
        spark.readStream.format("text")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", f"*{SEALED}")
        .option("maxFileAge", f"{retention_s + MARGIN_S}s")
        .option("maxFilesPerTrigger", files_per_batch)
        .load(str(events))
        .select(F.col(TEXT), F.col("_metadata.file_name").alias(FILE))
    )


def read_events(spark: SparkSession, table: Path) -> DataFrame:
    return spark.read.schema(table_schema()).parquet(str(table))
