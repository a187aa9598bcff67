"""Ingest: every line of every sealed segment once, whatever it is interrupted by."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cns_pipeline.ingest import ingest
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_events
from tests.pipeline.jobs import QUICK_JAVA, ROOT
from tests.pipeline.segments import publish, write_segment
from tests.waiting import wait_until

WEEK_S = 7 * 86_400


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    return tmp_path / "segments"


def run(spark: SparkSession, segments: Path, out: Path, files_per_batch: int = 1_000) -> int:
    return ingest(spark, segments, PipelinePaths(out), WEEK_S, files_per_batch)


def numbers(spark: SparkSession, out: Path) -> Counter[tuple[str, int]]:
    """How often each event is in the table."""
    frame = read_events(spark, PipelinePaths(out).table).where("sequence > 0").select("boot", "sequence")
    return Counter((row["boot"], row["sequence"]) for row in frame.collect())


def expected(boot: str, last: int) -> Counter[tuple[str, int]]:
    return Counter((boot, number) for number in range(1, last + 1))


@pytest.mark.slice
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
    aside = read_events(spark, PipelinePaths(out).table).where("event = 'malformed'").select("line", "file").collect()
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
    forget(out, "checkpoint/commits", "events/_spark_metadata")
    gone.unlink()
    run(spark, segments, out)
    assert numbers(spark, out) == expected("c", 1)


@pytest.mark.parametrize(
    "unwritten",
    [("checkpoint/commits",), ("checkpoint/commits", "events/_spark_metadata")],
    ids=["the batch is in the table, the checkpoint does not know", "its files are written, the table does not know"],
)
def test_a_batch_that_was_not_finished_is_done_again_and_counts_once(
    spark: SparkSession, segments: Path, out: Path, unwritten: tuple[str, ...]
) -> None:
    write_segment(segments, "b", 1, [publish()] * 3)
    run(spark, segments, out)
    write_segment(segments, "b", 4, [publish()] * 3)
    run(spark, segments, out)
    forget(out, *unwritten)
    run(spark, segments, out)
    assert numbers(spark, out) == expected("b", 6)


def forget(out: Path, *logs: str) -> None:
    """The last entry of each log, as if the process had died before writing it."""
    for log in logs:
        last = max(int(path.name) for path in (out / log).iterdir() if path.name.isdecimal())
        (out / log / str(last)).unlink()
        (out / log / f".{last}.crc").unlink()


INGEST = """
import sys
from pathlib import Path
from cns_pipeline.ingest import ingest
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.session import open_session
with open_session("victim") as spark:
    ingest(spark, Path(sys.argv[1]), PipelinePaths(Path(sys.argv[2])), 604_800, files_per_batch=1)
"""


@pytest.mark.timeout(300)  # a Java process of its own
def test_a_killed_ingest_is_taken_up_where_it_ended(spark: SparkSession, segments: Path, out: Path) -> None:
    files = 25
    for number in range(files):
        write_segment(segments, "b", 10 * number + 1, [publish()] * 10)
    victim = subprocess.Popen(
        [sys.executable, "-c", INGEST, str(segments), str(out)],
        cwd=ROOT,
        env={**os.environ, **QUICK_JAVA},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: (out / "checkpoint" / "commits" / "1").exists(), 100)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait(10)
    assert 0 < len(numbers(spark, out)) < 10 * files
    run(spark, segments, out)
    assert numbers(spark, out) == expected("b", 10 * files)
