"""Reads frames: the segments as a stream of lines, and the ingested events as a table."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_common.events.files import SEALED
from cns_pipeline.schema import FILE, table_schema
from cns_pipeline.transforms.parse import TEXT

ANY_AGE = "3650000d"
"""Ten thousand years: Spark passes over files that are this much older than the newest one, by their mtimes."""


def segment_lines(spark: SparkSession, events: Path, files_per_batch: int) -> DataFrame:
    """Return a stream of the lines of sealed segments. Spark remembers the paths of the segments it has read."""
    return (
        spark.readStream.format("text")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", f"*{SEALED}")
        .option("maxFileAge", ANY_AGE)
        .option("maxFilesPerTrigger", files_per_batch)
        .load(str(events))
        .select(F.col(TEXT), F.col("_metadata.file_name").alias(FILE))
    )


def read_events(spark: SparkSession, table: Path) -> DataFrame:
    """Return the events of all batches. A new table has none."""
    return spark.read.schema(table_schema()).parquet(str(table)).select(*table_schema().fieldNames())


def read_batch(spark: SparkSession, *directories: Path) -> DataFrame:
    """Return the events of some batches."""
    frames = [spark.read.schema(table_schema()).parquet(str(directory)) for directory in directories]
    return reduce(DataFrame.union, frames)
