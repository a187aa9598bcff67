"""Reads segments as a stream of lines, and ingested events as a table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_common.events.files import SEALED
from cns_pipeline.batches import EventTable, event_table, in_period
from cns_pipeline.location import Location
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.schema import DATE, FILE, table_schema
from cns_pipeline.storage import Storage
from cns_pipeline.transforms.parse import TEXT

AT_MS = "at_ms"
ANY_AGE = "3650000d"
"""Ten thousand years. Spark ignores files whose mtime is this much older than the newest one."""
_DATED_FOLDER = r"/(\d{4}-\d{2}-\d{2})/\d{2}/[^/]+$"


def segment_lines(spark: SparkSession, events: Location, files_per_batch: int) -> DataFrame:
    """Return a stream of the lines of sealed segments: text, segment name, and the date of its folder, or null.

    Spark records the paths of the segments that it read.
    """
    folder = F.regexp_extract(F.col("_metadata.file_path"), _DATED_FOLDER, 1)
    return (
        spark.readStream.format("text")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", f"*{SEALED}")
        .option("maxFileAge", ANY_AGE)
        .option("maxFilesPerTrigger", files_per_batch)
        .load(str(events))
        .select(F.col(TEXT), F.col("_metadata.file_name").alias(FILE), F.try_to_date(folder, "yyyy-MM-dd").alias(DATE))
    )


def read_events(
    spark: SparkSession, paths: PipelinePaths, since_ms: int | None = None, until_ms: int | None = None
) -> DataFrame:
    """Return the events at `since_ms` or later and before `until_ms`; none for a new table.

    Lines kept aside have no time: the frame has those of folders with a date of the period, and of folders without a
    date. It shows the table as it is now, whatever is ingested or merged later.
    """
    table = event_table(Storage(spark), paths)
    events = read_directories(spark, table, table.directories(table.read(), in_period(since_ms, until_ms)))
    if since_ms is not None:
        events = events.where(F.col(AT_MS).isNull() | (F.col(AT_MS) >= since_ms))
    if until_ms is not None:
        events = events.where(F.col(AT_MS).isNull() | (F.col(AT_MS) < until_ms))
    return events


def read_directories(spark: SparkSession, table: EventTable, directories: Sequence[str]) -> DataFrame:
    """Return the events of these parts or batches of the table. A missing file fails the job."""
    if not directories:
        return spark.createDataFrame([], table_schema())
    reader = spark.read.schema(table_schema()).option("basePath", str(table.directory))
    found = reader.option("ignoreMissingFiles", "false").parquet(*directories)
    return found.select(*table_schema().fieldNames())
