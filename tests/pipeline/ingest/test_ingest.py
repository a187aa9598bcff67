"""Ingest: every line of every sealed segment is taken once, whatever interrupts it."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_pipeline.arguments import Arguments
from cns_pipeline.audit.collect import read_audit_events
from cns_pipeline.batches import Contents, event_table, removed_until_ms
from cns_pipeline.ingest import ingest
from cns_pipeline.jobs import ingest as job
from cns_pipeline.location import located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import EVERYTHING
from cns_pipeline.read import read_events
from cns_pipeline.reports.files import new_report
from cns_pipeline.reports.report import make_report
from cns_pipeline.retention import remove_old_dates
from cns_pipeline.storage import Storage
from cns_pipeline.tables.manifest import Batch
from cns_pipeline.tables.table import TableWriter
from cns_pipeline.transforms.coverage import coverage, lines_aside
from tests.pipeline.ingest.segments import AT_MS, event_line, publish, write_segment
from tests.pipeline.tables import expected, numbers, stray_files


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    return tmp_path / "segments"


def run(spark: SparkSession, segments: Path, out: Path, files_per_batch: int = 1_000) -> int:
    return ingest(spark, segments, PipelinePaths(out), files_per_batch).lines


def test_each_run_takes_what_is_new(spark: SparkSession, segments: Path, out: Path) -> None:
    write_segment(segments, "b", 1, [publish()] * 3)
    assert run(spark, segments, out) == 5
    assert run(spark, segments, out) == 0
    write_segment(segments, "b", 4, [publish()] * 2)
    assert run(spark, segments, out) == 4
    assert numbers(spark, out) == expected("b", 5)


def test_what_is_not_sealed_is_left_for_later(spark: SparkSession, segments: Path, out: Path) -> None:
    path = write_segment(segments, "b", 1, [publish()] * 3)
    still_open = path.rename(path.with_name(path.name + ".open"))
    write_segment(segments, "c", 1, [publish()])
    run(spark, segments, out)
    assert numbers(spark, out) == expected("c", 1)
    still_open.rename(path)
    run(spark, segments, out)
    assert numbers(spark, out) == expected("c", 1) + expected("b", 3)


def test_lines_that_are_no_events_are_kept_aside(spark: SparkSession, segments: Path, out: Path) -> None:
    junk = b'no JSON\n{"version":1,"boot":"b","sequ\n'
    path = write_segment(segments, "b", 1, [publish()] * 2, junk)
    run(spark, segments, out)
    aside = read_events(spark, PipelinePaths(out)).where("event = 'malformed'").select("line", "file").collect()
    assert sorted((row["line"], row["file"]) for row in aside) == [
        (text, path.name) for text in sorted(junk.decode().splitlines())
    ]
    assert numbers(spark, out) == expected("b", 2)


def test_a_segment_that_retention_removed_meanwhile_does_not_stop_the_rest(
    spark: SparkSession, segments: Path, out: Path
) -> None:
    """It was listed in a batch that was not finished."""
    gone = write_segment(segments, "b", 1, [publish()])
    write_segment(segments, "c", 1, [publish()])
    run(spark, segments, out)
    forget_commit(out)
    forget_batch(out)
    gone.unlink()
    run(spark, segments, out)
    assert numbers(spark, out) == expected("c", 1)


@pytest.mark.parametrize("died", ["before the batch was added", "before the batch was committed", "without checkpoint"])
def test_a_batch_that_was_not_finished_is_done_again_and_counts_once(
    spark: SparkSession, segments: Path, out: Path, died: str
) -> None:
    write_segment(segments, "b", 1, [publish()] * 3)
    run(spark, segments, out)
    write_segment(segments, "b", 4, [publish()] * 3, b"no event\n")
    run(spark, segments, out)
    if died == "without checkpoint":
        shutil.rmtree(out / "checkpoint")
    else:
        forget_commit(out)
    if died == "before the batch was added":
        forget_batch(out)
    again = run(spark, segments, out)
    assert again == (6 if died == "before the batch was added" else 0)
    assert numbers(spark, out) == expected("b", 6)
    assert read_events(spark, PipelinePaths(out)).where("event = 'malformed'").count() == 1
    assert not stray_files(out)


def forget_commit(out: Path) -> None:
    """Remove the last entry of the checkpoint's log, as if the process had died before writing it."""
    log = out / "checkpoint" / "commits"
    last = max(int(path.name) for path in log.iterdir() if path.name.isdecimal())
    (log / str(last)).unlink()
    (log / f".{last}.crc").unlink()


def forget_batch(out: Path) -> None:
    """Leave the last batch as a process does that dies before it adds it to the table."""
    max((out / "events" / "_manifests").iterdir()).unlink()


DAY_S = 86_400


@pytest.mark.parametrize("off_s", [400 * 365 * DAY_S, -20 * 365 * DAY_S], ids=["of the future", "of a copy"])
def test_the_time_of_a_file_does_not_matter(spark: SparkSession, segments: Path, out: Path, off_s: int) -> None:
    odd = write_segment(segments, "b", 1, [publish()])
    at_s = odd.stat().st_mtime + off_s
    os.utime(odd, (at_s, at_s))
    write_segment(segments, "c", 1, [publish()])
    run(spark, segments, out)
    old = write_segment(segments, "d", 1, [publish()])
    os.utime(old, (0, 0))
    run(spark, segments, out)
    assert numbers(spark, out) == expected("b", 1) + expected("c", 1) + expected("d", 1)


def test_an_event_is_there_once_however_many_copies_its_segment_has(
    spark: SparkSession, segments: Path, out: Path
) -> None:
    """Number 3 is missing. Copies come in the same batch, in a later one, beside what is new, and in part."""
    first = write_segment(segments, "b", 1, [publish()] * 2)
    gap = write_segment(segments, "b", 4, [publish()] * 2)
    copied(first, segments / "restored" / first.name)
    run(spark, segments, out)
    copied(gap, gap.with_name("another-name.jsonl"))
    part = segments / "part" / "other.jsonl"
    copied(gap, part)
    part.write_bytes(b"".join(part.read_bytes().splitlines(keepends=True)[:2]))
    write_segment(segments, "b", 6, [publish()])
    assert run(spark, segments, out) == 3
    assert numbers(spark, out) == expected("b", 6) - Counter([("b", 3)])
    (known,) = coverage(read_events(spark, PipelinePaths(out))).collect()
    assert (known["events"], known["unknown"]) == (5, 1)


def copied(path: Path, to: Path) -> None:
    to.parent.mkdir(exist_ok=True)
    shutil.copy2(path, to)


def test_a_time_out_of_range_is_kept_aside_and_its_file_named(spark: SparkSession, segments: Path, out: Path) -> None:
    times = ["-1", "253402300800000", "9223372036854775807", "9223372036854775808", "1.5", '"now"']
    good = event_line("b", 9, publish(at_ms=77)).decode()
    junk = "".join(good.replace('"at_ms":77', f'"at_ms":{text}') for text in times).encode()
    path = write_segment(segments, "b", 1, [publish()] * 2, junk)
    ingested = ingest(spark, segments, PipelinePaths(out))
    assert (ingested.lines, ingested.malformed, ingested.files) == (10, len(times), {path.name})
    assert run(spark, segments, out) == 0
    assert numbers(spark, out) == expected("b", 2)
    aside = lines_aside(read_events(spark, PipelinePaths(out))).collect()
    assert [(row["event"], row["file"], row["lines"]) for row in aside] == [("malformed", path.name, len(times))]


def test_lines_of_a_newer_version_are_kept_aside(spark: SparkSession, segments: Path, out: Path) -> None:
    line = event_line("b", 3, publish()).replace(b'"version":1', b'"version":2')
    write_segment(segments, "b", 1, [publish()] * 2, line + line.replace(b'"jobs":1', b'"jobs":["j"]'))
    ingested = ingest(spark, segments, PipelinePaths(out))
    assert (ingested.newer, ingested.malformed) == (2, 0)
    aside = lines_aside(read_events(spark, PipelinePaths(out))).collect()
    assert [(row["event"], row["lines"]) for row in aside] == [("newer", 2)]


def test_a_line_kept_aside_has_the_date_of_its_folder(spark: SparkSession, segments: Path, out: Path) -> None:
    """It has no time, and is in every period of that date; outside dated folders, in every period."""
    path = write_segment(segments, "b", 1, [publish()], b"dated\n")
    copied(path, segments / "other" / "copy.jsonl")
    other = segments / "other" / "copy.jsonl"
    other.write_bytes(b"undated\n")
    run(spark, segments, out)
    for since_ms, until_ms, aside in (
        (None, None, {"dated", "undated"}),
        (AT_MS + 1, AT_MS + 2, {"dated", "undated"}),
        (AT_MS - DAY_MS, AT_MS, {"undated"}),
        (AT_MS + DAY_MS, None, {"undated"}),
    ):
        found = read_events(spark, PipelinePaths(out), since_ms, until_ms).where("line is not null").collect()
        assert {row["line"] for row in found} == aside


def test_a_period_has_its_first_and_not_its_last_moment(spark: SparkSession, segments: Path, out: Path) -> None:
    times = [AT_MS - 1, AT_MS, AT_MS + 1, AT_MS + DAY_MS - 1, AT_MS + DAY_MS]
    write_segment(segments, "b", 1, [publish(at_ms=at_ms) for at_ms in times])
    run(spark, segments, out)
    for since_ms, until_ms, expected_times in (
        (None, AT_MS, times[:1]),
        (AT_MS, AT_MS + 1, times[1:2]),
        (AT_MS, AT_MS + DAY_MS, times[1:4]),
        (AT_MS + DAY_MS, None, times[4:]),
    ):
        found = read_events(spark, PipelinePaths(out), since_ms, until_ms).where("sequence > 0").collect()
        assert sorted(row["at_ms"] for row in found) == expected_times


def test_an_ingest_without_new_segments_needs_no_spark(
    spark: SparkSession, segments: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does what is due without it: the files of merged parts go when their readers have ended."""
    write_segment(segments, "b", 1, [publish()])
    arguments = Arguments(data=out, events=located(segments), paths=PipelinePaths(out), local=out, keep_days=0)
    assert job.run(arguments).text.startswith("3 new lines")
    assert (segments / "ingested").read_text() == "test-b-000000000001.jsonl\n"
    shutil.copytree(out / "events" / only(out).name, out / "events" / "batch=stray")

    def no_session(_name: str, _arguments: Arguments) -> NoReturn:
        raise AssertionError("Spark was started")

    with monkeypatch.context() as without_spark:
        without_spark.setattr(job, "open_job", no_session)
        assert job.run(arguments).text.startswith("0 new lines")
        write_segment(segments, "b", 2, [publish()])
        with pytest.raises(AssertionError, match="Spark was started"):
            job.run(arguments)
    assert [path.name for path in (out / "events").glob("batch=*")] == [only(out).name]
    assert job.run(arguments).text.startswith("3 new lines")
    assert numbers(spark, out) == expected("b", 2)


def only(out: Path) -> Batch[Contents]:
    (batch,) = event_table(Storage(None), PipelinePaths(out)).read().batches
    return batch


def test_events_that_were_removed_for_their_age_are_not_missing(spark: SparkSession, segments: Path, out: Path) -> None:
    """Neither in a report of all events nor in an audit of them."""
    paths, storage = PipelinePaths(out), Storage(spark)
    write_segment(segments, "b", 1, [publish(at_ms=AT_MS + day * DAY_MS) for day in range(4)])
    ingest(spark, segments, paths)
    assert (removed_until_ms(storage, paths), read_audit_events(spark, paths, EVERYTHING).from_the_first) == (0, True)
    writer = TableWriter(event_table(storage, paths), Clock().real_ms, has_lock=True)
    assert remove_old_dates(writer, 1, Clock().real_ms()) == 2
    assert removed_until_ms(storage, paths) == AT_MS + 2 * DAY_MS
    assert not read_audit_events(spark, paths, EVERYTHING).from_the_first
    with new_report(storage, paths, EVERYTHING) as files:
        made = partial(make_report, read_events(spark, paths), EVERYTHING, files, AT_MS)
        assert made().coverage.unknown == 2
        assert made(removed_until_ms(storage, paths)).coverage.unknown == 0


def test_a_data_directory_may_be_moved(spark: SparkSession, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write_segment(before / "events", "b", 1, [publish()] * 3)
    run(spark, before / "events", before / "pipeline")
    write_segment(before / "events", "b", 4, [publish()])
    run(spark, before / "events", before / "pipeline")
    forget_commit(before / "pipeline")
    forget_batch(before / "pipeline")
    before.rename(after)
    write_segment(after / "events", "b", 5, [publish()])
    assert run(spark, after / "events", after / "pipeline") == 6
    assert numbers(spark, after / "pipeline") == expected("b", 5)
