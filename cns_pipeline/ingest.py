"""Ingests new segments into a Parquet table, partitioned by date and event; each event once.

Spark's checkpoint records the segments that were read. It only saves work: a batch leaves out the events that the table
has, so a segment that is read again, or is there twice, adds nothing. A killed run is continued by the next.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from cns_pipeline.batches import Batch, Contents, Span, add_batch, read_batches
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_batch, segment_lines
from cns_pipeline.schema import DATE, EVENT, FILE
from cns_pipeline.transforms.identity import distinct_events, new_events, spans
from cns_pipeline.transforms.parse import parse_lines

FILES_PER_BATCH = 1_000


@dataclass(slots=True, kw_only=True)
class Ingested:
    """What a run added to the table, in lines."""

    lines: int = 0
    malformed: int = 0
    newer: int = 0
    files: set[str] = field(default_factory=set)
    """The segments with lines that were kept aside."""


def ingest(spark: SparkSession, events: Path, paths: PipelinePaths, files_per_batch: int = FILES_PER_BATCH) -> Ingested:
    """Ingest all new segments."""
    _forget_moved(events, paths)
    ingested, batches = Ingested(), read_batches(paths)

    def write(lines: DataFrame, _: int) -> None:
        batch = _write_batch(lines, paths, batches)
        if batch is not None:
            batches.append(batch)
            _count(ingested, batch.contents)

    query = (
        segment_lines(spark, events, files_per_batch)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(paths.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return ingested


def _forget_moved(events: Path, paths: PipelinePaths) -> None:
    """Drop a checkpoint of another directory of events: it has absolute paths, also of segments to read next."""
    source = str(events.absolute())
    if not paths.source.exists() or paths.source.read_text() != source:
        shutil.rmtree(paths.checkpoint, ignore_errors=True)
        paths.out.mkdir(parents=True, exist_ok=True)
        paths.source.write_text(source)


def _write_batch(lines: DataFrame, paths: PipelinePaths, batches: list[Batch]) -> Batch | None:
    """None, if the table has all of it already."""
    spark, written = lines.sparkSession, paths.writing / "batch"
    _write(distinct_events(parse_lines(lines)), written)
    contents = _contents(read_batch(spark, written))
    known = [batch.path for batch in batches if contents.may_repeat(batch.contents)]
    if known:
        read, written = written, paths.writing / "new"
        _write(new_events(read_batch(spark, read), read_batch(spark, *known)), written)
        contents = _contents(read_batch(spark, written))
    batch = add_batch(paths, written, contents, batches) if contents.lines else None
    shutil.rmtree(paths.writing)
    return batch


def _write(events: DataFrame, directory: Path) -> None:
    events.write.mode("overwrite").partitionBy(DATE, EVENT).parquet(str(directory))


def _contents(events: DataFrame) -> Contents:
    rows = spans(events).collect()  # one for each boot
    return Contents(
        spans=[Span(row["boot"], row["first"], row["last"]) for row in rows if row["boot"] is not None],
        files=[row[FILE] for row in rows if row["boot"] is None],
        lines=sum([row["lines"] for row in rows]),
        newer=sum([row["newer"] for row in rows]),
        aside=sum([row["lines"] for row in rows if row["boot"] is None]),
    )


def _count(ingested: Ingested, contents: Contents) -> None:
    ingested.lines += contents.lines
    ingested.newer += contents.newer
    ingested.malformed += contents.aside - contents.newer
    ingested.files.update(contents.files)
