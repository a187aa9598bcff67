"""`cns pipeline ingest --follow`: new segments are taken as they are sealed, until a signal."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cns_pipeline.checkpoint import Checkpoint
from cns_pipeline.follow import Follower
from cns_pipeline.ingest import IngestOptions, IngestResult, SegmentIngest, ingest
from cns_pipeline.location import located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.storage import Storage
from lab.harness.processes import BIN
from lab.harness.waiting import PATIENCE_S
from tests.pipeline.ingest.segments import publish, write_segment
from tests.pipeline.jobs import ROOT, job, job_environment
from tests.pipeline.tables import expected, numbers

EVERY_S = 0.1


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    return tmp_path / "events"


def segment(segments: Path, number: int) -> Path:
    return write_segment(segments, "b", 2 * number + 1, [publish()] * 2)


class FollowerThread:
    """A follower in a thread, and what it says. `wait(n)` waits for the n-th line."""

    def __init__(self, work: SegmentIngest) -> None:
        self.lines: list[str] = []
        self.error: Exception | None = None
        self._said = threading.Condition()
        self.follower = Follower(work, EVERY_S, self._say)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self, lines: int) -> None:
        with self._said:
            assert self._said.wait_for(lambda: len(self.lines) >= lines or self.error is not None, PATIENCE_S)
            assert self.error is None

    def end(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _say(self, line: str) -> None:
        with self._said:
            self.lines.append(line)
            self._said.notify_all()

    def _run(self) -> None:
        try:
            self.follower.run()
        except PySparkException as error:
            with self._said:
                self.error = error
                self._said.notify_all()


@pytest.fixture
def following() -> Iterator[Callable[[SegmentIngest], FollowerThread]]:
    all_of_them: list[FollowerThread] = []

    def start(work: SegmentIngest) -> FollowerThread:
        all_of_them.append(FollowerThread(work))
        return all_of_them[-1]

    yield start
    for one in all_of_them:
        one.follower.stop()
        one.end()


def work_of(spark: SparkSession, segments: Path, out: Path) -> SegmentIngest:
    return SegmentIngest(spark, located(segments), PipelinePaths(out), IngestOptions())


def test_segments_are_taken_as_they_are_sealed(
    spark: SparkSession, segments: Path, out: Path, following: Callable[[SegmentIngest], FollowerThread]
) -> None:
    one = following(work_of(spark, segments, out))
    for number in range(3):
        path = segment(segments, number)
        one.wait(number + 1)
        assert numbers(spark, out) == expected("b", 2 * number + 2)
        assert path.name in (segments / "ingested").read_text().split()
    one.follower.stop()
    one.end()
    assert one.lines == ["4 new lines"] * 3
    segment(segments, 3)
    assert numbers(spark, out) == expected("b", 6)


def test_a_stop_lets_the_batch_end_that_is_being_added(
    spark: SparkSession, segments: Path, out: Path, following: Callable[[SegmentIngest], FollowerThread]
) -> None:
    begun, told = threading.Event(), threading.Event()

    class WaitingIngest(SegmentIngest):
        """Adds its batch after the stop."""

        def add(self, lines: DataFrame) -> IngestResult:
            begun.set()
            assert told.wait(PATIENCE_S)
            return super().add(lines)

    segment(segments, 0)
    one = following(WaitingIngest(spark, located(segments), PipelinePaths(out), IngestOptions()))
    assert begun.wait(PATIENCE_S)
    one.follower.stop()
    told.set()
    one.end()
    assert one.lines == ["4 new lines"]
    assert numbers(spark, out) == expected("b", 2)
    assert ingest(spark, segments, PipelinePaths(out)).lines == 0


def test_a_new_query_goes_on_where_the_last_one_ended(
    spark: SparkSession,
    segments: Path,
    out: Path,
    following: Callable[[SegmentIngest], FollowerThread],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its checkpoint then names only the segments that are still there."""
    monkeypatch.setattr("cns_pipeline.follow.BATCHES_PER_QUERY", 2)
    monkeypatch.setattr("cns_pipeline.checkpoint.ENTRIES_FREE", 0)
    one = following(work_of(spark, segments, out))
    for number in range(12):
        path = segment(segments, number)
        one.wait(number + 1)
        if number != 11:
            path.unlink()
    one.follower.stop()
    one.end()
    assert numbers(spark, out) == expected("b", 24)
    known = Checkpoint(Storage(None), PipelinePaths(out)).segments()
    assert str(path) in known
    assert len(known) < 12


def test_what_fails_in_spark_ends_it(
    spark: SparkSession, segments: Path, out: Path, following: Callable[[SegmentIngest], FollowerThread]
) -> None:
    class FailingIngest(SegmentIngest):
        def add(self, lines: DataFrame) -> IngestResult:
            raise OSError("no space left on device")

    segment(segments, 0)
    one = following(FailingIngest(spark, located(segments), PipelinePaths(out), IngestOptions()))
    one.end()
    assert "no space left on device" in str(one.error)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_with_its_result(segments: Path, tmp_path: Path, number: signal.Signals) -> None:
    segment(segments, 0)
    words: list[str | Path] = [BIN / "cns", "pipeline", "ingest", "--data", tmp_path, "--follow", "--every", "1s"]
    process = subprocess.Popen(
        words, cwd=ROOT, env=job_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (first, errors, process.returncode) == ("4 new lines\n", "", 0)
    assert output.startswith(f"4 new lines of {segments} are in ")


def test_a_span_that_is_none_is_refused(tmp_path: Path) -> None:
    done = job("cns", "pipeline", "ingest", "--data", tmp_path, "--follow", "--every", "soon")
    assert done.returncode == 2
    assert "'soon' is not a duration like 10s or 5m" in done.stderr
