"""Frames of events from the lines of a test."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from cns_pipeline.transforms.parse import parse_lines
from tests.pipeline.audit.random_logs import Line
from tests.pipeline.ingest.segments import event_line

LINES = StructType([StructField("value", StringType()), StructField("file", StringType())])


def frame_of(spark: SparkSession, lines: Iterable[Line]) -> DataFrame:
    return frame_of_lines(spark, [event_line(line.boot, line.sequence, line.event) for line in lines])


def frame_of_lines(spark: SparkSession, lines: Iterable[bytes]) -> DataFrame:
    return parse_lines(spark.createDataFrame([(line.decode().strip(), "f") for line in lines], LINES))
