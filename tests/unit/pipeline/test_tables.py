"""The table of batches without Spark: a change is seen whole, wherever its writer stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_pipeline.batches import BatchSpan, Contents, check_version, event_directories, event_table, merged
from cns_pipeline.location import Location, located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.retention import old_parts, remove_old_dates
from cns_pipeline.storage import LocalFiles, Storage
from cns_pipeline.tables.manifest import Part, PlacedPart, TableManifest
from cns_pipeline.tables.table import GRACE_MS, MANIFESTS_KEPT, STRAY_MS, BatchTable, TableWriter
from tests.unit.pipeline.stopping import Stopped, StoppingFiles

NOW_MS = 20_000 * DAY_MS  # 2024-10-04
DATES = ("2024-10-03", "2024-10-04")
UNDATED = "__HIVE_DEFAULT_PARTITION__"

Writer = TableWriter[Contents]


@pytest.fixture
def paths(tmp_path: Path) -> PipelinePaths:
    return PipelinePaths(tmp_path / "out")


def writer_of(
    paths: PipelinePaths, files: LocalFiles | None = None, at_ms: int = NOW_MS, *, lock: bool = True
) -> Writer:
    return TableWriter(event_table(files or LocalFiles(), paths), lambda: at_ms, has_lock=lock)


def contents(*boots: str) -> Contents:
    return Contents(spans=tuple([BatchSpan(boot, 1, 9) for boot in boots]), files=())


def write(writer: Writer, text: str, dates: tuple[str, ...] = DATES) -> Location:
    """Write a batch as Spark does: a file for each date, and its marker of success."""
    directory = writer.new_directory()
    files = LocalFiles()
    files.write(directory / "_SUCCESS", b"")
    for date in dates:
        files.write(directory / f"date={date}" / "event=publish.accepted" / "part-0.parquet", text.encode())
    return directory


def add(writer: Writer, text: str, dates: tuple[str, ...] = DATES) -> None:
    writer.add(write(writer, text, dates), contents(text))


def parts(writer: Writer) -> list[PlacedPart]:
    return list(writer.manifest.parts())


def rows(paths: PipelinePaths, since_ms: int | None = None, until_ms: int | None = None) -> list[tuple[str, str]]:
    """The date and text of each file that a reader finds."""
    found = [Path(text) for text in event_directories(Storage(None), paths, since_ms, until_ms)]
    return sorted((place.name, file.read_text()) for place in found for file in place.rglob("*.parquet"))


def files_below(paths: PipelinePaths) -> set[str]:
    return {path.parts[-4] for path in Path(str(paths.table)).rglob("*.parquet")}


def both_dates(*texts: str) -> list[tuple[str, str]]:
    return sorted((f"date={date}", text) for date in DATES for text in texts)


def test_a_reader_sees_what_was_added_and_nothing_else(paths: PipelinePaths) -> None:
    assert rows(paths) == []
    writer = writer_of(paths)
    add(writer, "a")
    write(writer, "not added")
    assert rows(paths) == both_dates("a")
    add(writer_of(paths), "b")
    assert rows(paths) == both_dates("a", "b")
    assert files_below(paths) == event_table(LocalFiles(), paths).read().names()


def test_a_period_has_the_parts_of_its_dates_and_those_without_a_date(paths: PipelinePaths) -> None:
    add(writer_of(paths), "a", (*DATES, UNDATED))
    undated = (f"date={UNDATED}", "a")
    assert rows(paths, since_ms=NOW_MS) == [("date=2024-10-04", "a"), undated]
    assert rows(paths, until_ms=NOW_MS) == [("date=2024-10-03", "a"), undated]
    assert rows(paths, until_ms=NOW_MS + 1) == [*both_dates("a"), undated]
    assert rows(paths, NOW_MS - 1, NOW_MS) == [("date=2024-10-03", "a"), undated]
    assert rows(paths, 0, 253_402_300_800_000) == [*both_dates("a"), undated]


def test_replaced_parts_stay_for_their_readers_for_an_hour(paths: PipelinePaths) -> None:
    writer = writer_of(paths)
    for text in ("a", "b"):
        add(writer, text)
    gone = [placed for placed in parts(writer) if placed.part.name == "date=2024-10-03"]
    before = event_directories(Storage(None), paths)
    writer.replace(gone, write(writer, "ab", ("2024-10-03",)), contents("a", "b"))
    expected = [("date=2024-10-03", "ab"), ("date=2024-10-04", "a"), ("date=2024-10-04", "b")]
    assert rows(paths) == expected
    assert [placed.part.generation for placed in parts(writer)] == [0, 0, 1]
    writer_of(paths, at_ms=NOW_MS + GRACE_MS - 1)
    assert all(Path(text).exists() for text in before)
    writer_of(paths, at_ms=NOW_MS + GRACE_MS)
    assert [Path(text).exists() for text in before] == [False, True] * 2
    assert rows(paths) == expected


def change(writer: Writer) -> None:
    """Each kind of change: two batches, one in the place of a date of both, and a date that leaves."""
    for text in ("a", "b"):
        add(writer, text)
    gone = [placed for placed in parts(writer) if placed.part.name == "date=2024-10-03"]
    writer.replace(gone, write(writer, "ab", ("2024-10-03",)), contents("a", "b"))
    writer.retire([placed for placed in parts(writer) if placed.part.name == "date=2024-10-03"])
    writer.clean()


STEPS = [
    [],
    both_dates("a"),
    both_dates("a", "b"),
    [("date=2024-10-03", "ab"), ("date=2024-10-04", "a"), ("date=2024-10-04", "b")],
    [("date=2024-10-04", "a"), ("date=2024-10-04", "b")],
]


def test_a_writer_that_stops_anywhere_leaves_a_whole_table_and_the_next_one_no_strays(tmp_path: Path) -> None:
    """At each call to the file system: before it, and in the midst of what it writes or deletes."""
    seen = []
    stops = 0
    while True:
        paths = PipelinePaths(tmp_path / str(stops))
        try:
            files = StoppingFiles(stops)
            change(writer_of(paths, files))
            writer_of(paths, files, NOW_MS + GRACE_MS)
        except Stopped:
            pass
        else:
            break
        seen.append(rows(paths))
        later = writer_of(paths, at_ms=NOW_MS + 2 * GRACE_MS)
        assert rows(paths) == seen[-1]
        assert files_below(paths) == {batch.name for batch in later.manifest.batches}
        assert not later.manifest.retired
        stops += 1
    assert all(found in STEPS for found in seen)
    assert [STEPS.index(found) for found in seen] == sorted(STEPS.index(found) for found in seen)
    assert {STEPS.index(found) for found in seen} == set(range(len(STEPS)))


def test_old_manifests_are_removed_and_a_late_reader_reads_again(
    paths: PipelinePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_of(paths)
    texts = [f"{number:02d}" for number in range(3 * MANIFESTS_KEPT)]
    for text in texts[:-MANIFESTS_KEPT]:
        add(writer, text)
    files = LocalFiles()
    read = files.read
    late = iter(texts[-MANIFESTS_KEPT:])

    def slow_read(file: Location) -> bytes:
        for text in late:
            add(writer, text)
        return read(file)

    monkeypatch.setattr(files, "read", slow_read)
    manifest = event_table(files, paths).read()
    assert [batch.contents.spans[0].boot for batch in manifest.batches] == texts
    assert len(list(Path(str(paths.table), "_manifests").iterdir())) == MANIFESTS_KEPT


def test_without_a_lock_the_second_of_two_writers_is_refused(paths: PipelinePaths) -> None:
    """As on HDFS and S3: neither removes what the other is writing."""
    first, second = [writer_of(paths, lock=False) for _ in range(2)]
    written = write(second, "second")
    add(first, "first")
    writer_of(paths, lock=False)
    with pytest.raises(StartError, match=r"another process changed .*: run the command again"):
        second.add(written, contents("second"))
    assert rows(paths) == both_dates("first")
    assert Path(str(written)).exists()


def test_without_a_lock_what_a_killed_writer_left_is_removed_after_a_day(paths: PipelinePaths) -> None:
    stray = Path(str(write(writer_of(paths), "stray")))
    written_ms = stray.stat().st_mtime_ns // 1_000_000
    writer_of(paths, at_ms=written_ms + STRAY_MS, lock=False)
    assert stray.exists()
    writer_of(paths, at_ms=written_ms + STRAY_MS + 1, lock=False)
    assert not stray.exists()


@pytest.mark.parametrize("inside", ["_spark_metadata/0", "batch=000000000001/_contents.json"])
def test_tables_of_version_0_1_are_refused(paths: PipelinePaths, inside: str) -> None:
    LocalFiles().write(paths.table / inside, b"")
    with pytest.raises(StartError, match="was made by an earlier version: move it away"):
        check_version(paths)


def test_a_manifest_that_is_none_is_named(paths: PipelinePaths) -> None:
    LocalFiles().write(paths.table / "_manifests" / "000000000001.json", b"{")
    with pytest.raises(StartError, match=r"000000000001.json is no manifest \(.*\): move the table away"):
        rows(paths)


@pytest.mark.parametrize(
    ("keep_days", "dates", "old"),
    [
        (0, ("1970-01-01", "2024-10-04"), []),
        (1, ("2024-10-03", "2024-10-04", UNDATED), []),
        (1, ("2024-10-02", "2024-10-03", "2024-10-04", UNDATED), ["2024-10-02"]),
        (1, ("2024-10-02", "2024-10-03", "9999-12-31"), ["2024-10-02"]),  # a clock's fault
        (1, ("1999-12-30", "1999-12-31"), []),  # segments of a backup
        (400, ("2023-08-30", "2023-08-31", "2024-10-04"), ["2023-08-30"]),
        (1, (UNDATED,), []),
    ],
)
def test_dates_that_are_too_old(paths: PipelinePaths, keep_days: int, dates: tuple[str, ...], old: list[str]) -> None:
    writer = writer_of(paths)
    add(writer, "a", dates)
    found = old_parts(writer.manifest, keep_days, NOW_MS)
    assert [placed.part.name for placed in found] == [f"date={date}" for date in old]


def test_old_dates_leave_the_table_and_their_files_an_hour_later(paths: PipelinePaths) -> None:
    writer = writer_of(paths)
    add(writer, "a", ("2024-10-02", "2024-10-04", UNDATED))
    add(writer, "b", ("2024-10-02",))
    assert remove_old_dates(writer, 1, NOW_MS) == 1
    assert rows(paths) == [("date=2024-10-04", "a"), (f"date={UNDATED}", "a")]
    assert len(writer.manifest.batches) == 1
    assert len(files_below(paths)) == 2
    writer_of(paths, at_ms=NOW_MS + GRACE_MS)
    assert len(files_below(paths)) == 1


def test_contents_of_a_merged_batch_have_all_that_was_merged() -> None:
    one = Contents(spans=(BatchSpan("a", 1, 5), BatchSpan("b", 3, 4)), files=("f",))
    two = Contents(spans=(BatchSpan("a", 9, 12),), files=("e", "f"))
    both = merged([one, two])
    assert set(both.spans) == {BatchSpan("a", 1, 12), BatchSpan("b", 3, 4)}
    assert both.files == ("e", "f")
    assert merged([]) == Contents(spans=(), files=())


@pytest.mark.parametrize(
    ("other", "may_repeat"),
    [
        (Contents(spans=(BatchSpan("a", 5, 9),), files=()), True),
        (Contents(spans=(BatchSpan("a", 6, 9),), files=()), False),
        (Contents(spans=(BatchSpan("b", 1, 5),), files=()), False),
        (Contents(spans=(), files=("f",)), True),
        (Contents(spans=(), files=("g",)), False),
    ],
)
def test_batches_that_may_have_the_same_events(other: Contents, may_repeat: bool) -> None:
    one = Contents(spans=(BatchSpan("a", 1, 5),), files=("f",))
    assert one.may_repeat(other) == other.may_repeat(one) == may_repeat


def test_a_table_may_have_contents_of_another_kind(tmp_path: Path) -> None:
    table: BatchTable[list[int]] = BatchTable(LocalFiles(), located(tmp_path / "other"), list[int])
    writer = TableWriter(table, lambda: NOW_MS, has_lock=True)
    directory = writer.new_directory()
    LocalFiles().write(directory / "topic=t" / "part-0.parquet", b"x")
    writer.add(directory, [1, 2])
    found: TableManifest[list[int]] = table.read()
    assert [batch.contents for batch in found.batches] == [[1, 2]]
    assert [placed.part for placed in found.parts()] == [Part(name="topic=t", files=1, size_bytes=1)]
