"""Frames of events from the lines of a test."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from cns_common.events.files import encoder, origin_of
from cns_pipeline.transforms.parse import parse_lines
from tests.pipeline.audit.random_logs import Line

LINES = StructType([StructField("value", StringType()), StructField("file", StringType())])


def frame_of(spark: SparkSession, lines: Iterable[Line]) -> DataFrame:
    texts = [
        (origin_of(line.boot) + b"%d," % line.sequence + encoder.encode(line.event)[1:]).decode() for line in lines
    ]
    return parse_lines(spark.createDataFrame([(text, "f") for text in texts], LINES))
