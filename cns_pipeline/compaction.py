"""Merges the files of many batches into few, with the same rows, by date and sorted for readers.

Each ingest adds at least one file for each date and event name. Merges go by generation, as in a log-structured merge
tree: `FAN_IN` parts of one date and generation become one part of the next. So a date always has few parts, and a row
is rewritten about log(batches) / log(FAN_IN) times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from cns_pipeline.batches import Contents, merged
from cns_pipeline.read import read_directories
from cns_pipeline.schema import DATE, EVENT
from cns_pipeline.tables.manifest import PlacedPart, TableManifest
from cns_pipeline.tables.table import TableWriter

FAN_IN = 8
"""The number of parts of one date and generation that are merged into one."""
PART_BYTES_MAX = 1 << 30
"""A part of at least this size is not merged any more."""
FILE_BYTES = 128 << 20
"""The approximate size of merged files."""
_ORDER = (DATE, EVENT, "boot", "sequence")


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The files and parts before and after a compaction."""

    parts: int = 0
    files_before: int = 0
    files_after: int = 0


def due_merges(manifest: TableManifest[Contents]) -> list[list[PlacedPart]]:
    """Return the merges that are due at the end of an ingest."""
    groups: dict[tuple[str, int], list[PlacedPart]] = {}
    for placed in _small(manifest):
        groups.setdefault((placed.part.name, placed.part.generation), []).append(placed)
    return [group for group in groups.values() if len(group) >= FAN_IN]


def all_merges(manifest: TableManifest[Contents]) -> list[list[PlacedPart]]:
    """Return the merges of `cns pipeline compact`: all parts of each date."""
    groups: dict[str, list[PlacedPart]] = {}
    for placed in _small(manifest):
        groups.setdefault(placed.part.name, []).append(placed)
    return [group for group in groups.values() if len(group) > 1 or group[0].part.generation == 0]


def compact_due(spark: SparkSession, writer: TableWriter[Contents]) -> CompactionResult:
    """Merge until no merge is due: a merged part may make another one due."""
    done = CompactionResult()
    while merges := due_merges(writer.manifest):
        done = _merge_each(spark, writer, merges, done)
    return done


def compact(spark: SparkSession, writer: TableWriter[Contents]) -> CompactionResult:
    """Merge each date into one part."""
    return _merge_each(spark, writer, all_merges(writer.manifest), CompactionResult())


def _small(manifest: TableManifest[Contents]) -> Iterable[PlacedPart]:
    return [placed for placed in manifest.parts() if placed.part.size_bytes < PART_BYTES_MAX]


def _merge_each(
    spark: SparkSession, writer: TableWriter[Contents], merges: Sequence[list[PlacedPart]], done: CompactionResult
) -> CompactionResult:
    for group in merges:
        files_after = _merge(spark, writer, group)
        done = CompactionResult(
            done.parts + len(group),
            done.files_before + sum([placed.part.files for placed in group]),
            done.files_after + files_after,
        )
    return done


def _merge(spark: SparkSession, writer: TableWriter[Contents], group: Sequence[PlacedPart]) -> int:
    """Merge a group of parts. Returns the number of files of the new part."""
    directory = writer.new_directory()
    rows = read_directories(spark, writer.table, [str(writer.table.place(placed)) for placed in group])
    size_bytes = sum([placed.part.size_bytes for placed in group])
    _sorted(rows, 1 + size_bytes // FILE_BYTES).write.partitionBy(DATE, EVENT).parquet(str(directory))
    names = {placed.batch for placed in group}
    sources = [batch.contents for batch in writer.manifest.batches if batch.name in names]
    writer.replace(group, directory, merged(sources))
    return sum([part.files for part in writer.manifest.batches[-1].parts])


def _sorted(rows: DataFrame, files: int) -> DataFrame:
    """Sort rows by event, boot and sequence number: they compress well, and readers can skip most of them."""
    in_few = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *_ORDER)
    return in_few.sortWithinPartitions(*_ORDER)
