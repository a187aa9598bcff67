"""Where the frames come from: the segments as a stream of lines, and what was ingested of them as a table."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_common.events.files import SEALED
from cns_pipeline.schema import FILE, table_schema
from cns_pipeline.transforms.parsed import TEXT

MARGIN_S = 24 * 3_600


def segment_lines(spark: SparkSession, events: Path, retention_s: int, files_a_batch: int) -> DataFrame:
    """A stream of the lines of sealed segments, each segment once.

    Spark remembers the names of what it has read; it may forget those that are old enough to be removed by now.
    """
    return (
        spark.readStream.format("text")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", f"*{SEALED}")
        .option("maxFileAge", f"{retention_s + MARGIN_S}s")
        .option("maxFilesPerTrigger", files_a_batch)
        .load(str(events))
        .select(F.col(TEXT), F.col("_metadata.file_name").alias(FILE))
    )


def ingested(spark: SparkSession, table: Path) -> DataFrame:
    return spark.read.schema(table_schema()).parquet(str(table))
