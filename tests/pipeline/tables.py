"""Rows and files of the table of events, for tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from cns_pipeline.batches import event_table
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_events
from cns_pipeline.storage import Storage


def numbers(spark: SparkSession, out: Path) -> Counter[tuple[str, int]]:
    """The number of times that each event is in the table."""
    frame = read_events(spark, PipelinePaths(out)).where("sequence > 0").select("boot", "sequence")
    return Counter((row["boot"], row["sequence"]) for row in frame.collect())


def expected(boot: str, last: int) -> Counter[tuple[str, int]]:
    return Counter((boot, number) for number in range(1, last + 1))


def stray_files(out: Path) -> set[str]:
    """The Parquet files that the table does not name, and the directories it names that have none."""
    table = event_table(Storage(None), PipelinePaths(out))
    named = set(table.directories(table.read()))
    there = {str(path.parent.parent) for path in (out / "events").rglob("*.parquet")}
    return there ^ named
