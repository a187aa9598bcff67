"""Compaction: the same rows in fewer files, for readers before, amid and after it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cns_common.durations import DAY_MS
from cns_pipeline.batches import BatchSpan, Contents, event_table
from cns_pipeline.compaction import FAN_IN, PART_BYTES_MAX, all_merges, compact, compact_due, due_merges
from cns_pipeline.ingest import ingest
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_events
from cns_pipeline.storage import Storage
from cns_pipeline.tables.manifest import Batch, Part, TableManifest
from cns_pipeline.tables.table import GRACE_MS, TableWriter
from tests.pipeline.ingest.segments import AT_MS, publish, write_segment


def writer_of(paths: PipelinePaths, now_ms: int = 0) -> TableWriter[Contents]:
    return TableWriter(event_table(Storage(None), paths), lambda: now_ms, has_lock=True)


def rows_of(frame: DataFrame) -> Counter[Row]:
    return Counter(frame.collect())


def parts_of(paths: PipelinePaths) -> list[tuple[str, int]]:
    """Date and generation of each part."""
    manifest = event_table(Storage(None), paths).read()
    return sorted((placed.part.name.removeprefix("date="), placed.part.generation) for placed in manifest.parts())


def test_merged_batches_have_the_same_rows_for_every_reader(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """The last of many ingests merges one date, and the command the others. An earlier frame is read afterwards."""
    paths, segments = PipelinePaths(out), tmp_path / "segments"
    for number in range(FAN_IN):
        events = [publish("t", at_ms=AT_MS + number), *([publish("u", at_ms=AT_MS + DAY_MS)] if number < 2 else [])]
        write_segment(segments, "b", 10 * number + 1, events, b"no event\n" if number == 3 else b"")
        if number == FAN_IN - 1:
            earlier = read_events(spark, paths)
            expected = rows_of(earlier)
        ingest(spark, segments, paths)
    assert parts_of(paths) == [("2024-10-04", 1), ("2024-10-05", 0), ("2024-10-05", 0)]
    assert rows_of(earlier) == expected
    now = read_events(spark, paths)
    assert sum(rows_of(now).values()) == 3 * FAN_IN + 2 + 1
    assert rows_of(now) >= expected
    expected = rows_of(now)
    writer = writer_of(paths)
    done = compact(spark, writer)
    assert (done.parts, done.files_before, done.files_after) == (2, 2, 1)
    assert rows_of(now) == rows_of(read_events(spark, paths)) == expected
    assert all_merges(writer.manifest) == due_merges(writer.manifest) == []
    writer_of(paths, GRACE_MS)
    assert rows_of(read_events(spark, paths)) == expected
    assert write_again(spark, segments, paths) == 0


def write_again(spark: SparkSession, segments: Path, paths: PipelinePaths) -> int:
    """Ingest all segments once more, as without a checkpoint."""
    Storage(None).delete(paths.checkpoint)
    return ingest(spark, segments, paths).lines


def test_a_reader_whose_files_are_gone_fails_and_counts_nothing_wrong(
    spark: SparkSession, tmp_path: Path, out: Path
) -> None:
    paths, segments = PipelinePaths(out), tmp_path / "segments"
    for number in range(2):
        write_segment(segments, "b", number + 1, [publish()])
        ingest(spark, segments, paths)
    slow = read_events(spark, paths)
    compact(spark, writer_of(paths))
    writer_of(paths, GRACE_MS)
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        slow.collect()


def test_merged_files_are_sorted_by_boot_and_number(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    paths, segments = PipelinePaths(out), tmp_path / "segments"
    for boot, first in (("b", 1), ("a", 1), ("b", 4), ("a", 4)):
        write_segment(segments, boot, first, [publish()] * 3)
        ingest(spark, segments, paths)
    compact(spark, writer_of(paths))
    (file,) = {row[0] for row in read_events(spark, paths).where("sequence > 0").select(F.input_file_name()).collect()}
    found = [(row["boot"], row["sequence"]) for row in spark.read.parquet(file).collect()]
    assert found == [(boot, number) for boot in "ab" for number in range(1, 7)]


def test_levels_of_merges(spark: SparkSession, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two of a generation merged at once, the sizes of parts are the digits of a binary number."""
    monkeypatch.setattr("cns_pipeline.compaction.FAN_IN", 2)
    paths, segments = PipelinePaths(out), tmp_path / "segments"
    generations = []
    for number in range(5):
        write_segment(segments, "b", number + 1, [publish()])
        ingest(spark, segments, paths)
        generations.append([generation for _, generation in parts_of(paths)])
    assert generations == [[0], [1], [0, 1], [2], [0, 2]]
    assert compact_due(spark, writer_of(paths)).parts == 0


def part(name: str, generation: int = 0, size_bytes: int = 1) -> Part:
    return Part(name=name, files=1, size_bytes=size_bytes, generation=generation)


def manifest(*parts: Part) -> TableManifest[Contents]:
    batches = [
        Batch(name=str(number), parts=(one,), contents=Contents(spans=(BatchSpan("b", 1, 1),), files=()))
        for number, one in enumerate(parts)
    ]
    return TableManifest(number=1, batches=tuple(batches))


def test_what_is_due_to_be_merged() -> None:
    few, many = [part("date=a")] * (FAN_IN - 1), [part("date=b")] * FAN_IN
    older, whole = [part("date=b", 1)] * (FAN_IN - 1), part("date=b", 0, PART_BYTES_MAX)
    found = due_merges(manifest(*few, *many, *older, whole))
    assert [[placed.batch for placed in group] for group in found] == [
        [str(number) for number in range(len(few), len(few) + FAN_IN)]
    ]
    every = all_merges(manifest(*few, *many, *older, whole, part("date=c", 1), part("date=d")))
    sizes = {group[0].part.name: len(group) for group in every}
    assert sizes == {"date=a": FAN_IN - 1, "date=b": 2 * FAN_IN - 1, "date=d": 1}
