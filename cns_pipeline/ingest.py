"""Ingests new segments into a Parquet table, partitioned by date and event, without duplicates.

Spark's checkpoint records the segments that were read, but only saves work: a batch leaves out events that the table
already has, so a segment that is read twice, or has a copy, adds nothing. The next run continues a killed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cns_common.clock import Clock
from cns_pipeline.batches import BatchSpan, Contents, event_table
from cns_pipeline.checkpoint import Checkpoint
from cns_pipeline.compaction import compact_due
from cns_pipeline.location import Location, located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_directories, segment_lines
from cns_pipeline.retention import remove_old_dates
from cns_pipeline.schema import DATE, EVENT, FILE
from cns_pipeline.segments import mark_ingested, sealed_segments
from cns_pipeline.storage import Storage
from cns_pipeline.stored_file import FileStore
from cns_pipeline.tables.manifest import Batch
from cns_pipeline.tables.table import TableWriter
from cns_pipeline.transforms.identity import distinct_events, new_events, spans
from cns_pipeline.transforms.parse import parse_lines

FILES_PER_BATCH = 1_000


@dataclass(slots=True, kw_only=True)
class IngestResult:
    """The number of lines that a run or a batch added to the table."""

    lines: int = 0
    copies: int = 0  # duplicate lines, which the table does not get
    malformed: int = 0
    newer: int = 0
    files: set[str] = field(default_factory=set)
    """The segments with lines that were kept aside."""

    def add(self, other: IngestResult) -> None:
        self.lines += other.lines
        self.malformed += other.malformed
        self.newer += other.newer
        self.files |= other.files


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """`has_lock`: no other process writes the table. `keep_days`: how many days before the newest stay; 0: all."""

    files_per_batch: int = FILES_PER_BATCH
    keep_days: int = 0
    has_lock: bool = True


class SegmentIngest:
    """Adds the new events of a directory of segments to the table, batch by batch."""

    def __init__(
        self,
        spark: SparkSession,
        events: Location,
        paths: PipelinePaths,
        options: IngestOptions,
        *,
        now_ms: Callable[[], int] | None = None,
        storage: FileStore | None = None,
    ) -> None:
        self._spark = spark
        self._events = events
        self._paths = paths
        self._options = options
        self._now_ms = now_ms or Clock().real_ms
        self._storage = storage or Storage(spark)
        self._checkpoint = Checkpoint(self._storage, paths)
        table = event_table(self._storage, paths)
        table.check_version()
        self.writer = TableWriter(table, self._now_ms, has_lock=options.has_lock)
        self.total = IngestResult()

    def prepared_query(self) -> DataStreamWriter:
        """A query over the segments that the checkpoint does not have. The caller sets its trigger and starts it."""
        self._checkpoint.reset_unless_of(self._events)
        present = self._present()
        if present is not None:
            self._checkpoint.trim(present)
        lines = segment_lines(self._spark, self._events, self._options.files_per_batch)
        return lines.writeStream.option("checkpointLocation", str(self._paths.checkpoint))

    def add(self, lines: DataFrame) -> IngestResult:
        """Add the new lines, then merge and remove parts that are due. Returns the counts of added lines."""
        added = self._add(lines)
        self.total.add(added)
        compact_due(self._spark, self.writer)
        remove_old_dates(self.writer, self._options.keep_days, self._now_ms())
        self.mark()
        return added

    def mark(self) -> None:
        """Tell the service which segments are ingested. After a batch, the table has all segments of the checkpoint."""
        if self._events.local is not None:
            mark_ingested(self._events.local, self._checkpoint.segments())

    def _present(self) -> set[str] | None:
        return None if self._events.local is None else sealed_segments(self._events.local)

    def _add(self, lines: DataFrame) -> IngestResult:
        written = self._write(parse_lines(lines))
        added, contents = self._read_contents(written)
        known = [batch for batch in self.writer.manifest.batches if contents.may_repeat(batch.contents)]
        if known or added.copies:  # rare: segments are read in order and once
            events = distinct_events(self._read(written))
            if known:
                events = new_events(events, self._earlier(known, contents))
            read, written = written, self._write(events)
            self.writer.discard(read)
            added, contents = self._read_contents(written)
        if added.lines:
            self.writer.add(written, contents)
        else:
            self.writer.discard(written)
        return added

    def _earlier(self, batches: Sequence[Batch[Contents]], contents: Contents) -> DataFrame:
        """The events of these batches that may be duplicates of the contents."""
        names, table = {batch.name for batch in batches}, self.writer.table
        places = [str(table.place(placed)) for placed in self.writer.manifest.parts() if placed.batch in names]
        return read_directories(self._spark, table, places).where(_may_be_in(contents))

    def _write(self, events: DataFrame) -> Location:
        directory = self.writer.new_directory()
        events.write.partitionBy(DATE, EVENT).parquet(str(directory))
        return directory

    def _read(self, directory: Location) -> DataFrame:
        return read_directories(self._spark, self.writer.table, [str(directory)])

    def _read_contents(self, directory: Location) -> tuple[IngestResult, Contents]:
        rows = spans(self._read(directory)).collect()  # one for each boot, and each segment with lines kept aside
        aside = [row for row in rows if row["boot"] is None]
        files = tuple([row[FILE] for row in aside])
        newer = sum([row["newer"] for row in aside])
        added = IngestResult(
            lines=sum([row["lines"] for row in rows]),
            copies=sum([row["lines"] - row["distinct"] for row in rows]),
            malformed=sum([row["lines"] for row in aside]) - newer,
            newer=newer,
            files=set(files),
        )
        found = [BatchSpan(row["boot"], row["first"], row["last"]) for row in rows if row["boot"] is not None]
        return added, Contents(spans=tuple(found), files=files)


def ingest(
    spark: SparkSession,
    events: Location | Path | str,
    paths: PipelinePaths,
    files_per_batch: int = FILES_PER_BATCH,
    options: IngestOptions | None = None,
) -> IngestResult:
    """Ingest all new segments, then return."""
    chosen = options or IngestOptions(files_per_batch=files_per_batch)
    work = SegmentIngest(spark, located(events), paths, chosen)

    def add(lines: DataFrame, _: int) -> None:
        work.add(lines)

    query = work.prepared_query().foreachBatch(add).trigger(availableNow=True).start()
    query.awaitTermination()
    return work.total


def _may_be_in(contents: Contents) -> Column:
    """Whether a row may be one of the contents: it has one of their boots, or is a line that was kept aside."""
    boot = F.col("boot")
    return boot.isNull() | boot.isin([span.boot for span in contents.spans])
