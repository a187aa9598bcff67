"""Counts the lines that were kept aside: those that are no events, and those of a newer version."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT, FILE, MALFORMED, NEWER
from cns_pipeline.transforms.report.columns import is_event


def lines_aside(events: DataFrame) -> DataFrame:
    """Return a row per kind and segment."""
    return events.where(is_event(MALFORMED, NEWER)).groupBy(EVENT, FILE).agg(F.count("*").alias("lines"))
