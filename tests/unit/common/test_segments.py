"""The segment writer: contents and end of a segment, and the state after a crash or a failing disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cns_common import file_writer
from cns_common.clock import Clock
from cns_common.events.schema import NotificationDropped
from cns_common.events.segment import SegmentLimits
from cns_common.events.writer import SegmentWriter
from lab.harness.waiting import PATIENCE_S, wait_until

LIMITS = SegmentLimits(segment_bytes_max=1 << 24, segment_age_s=60, retention_s=86_400, bytes_max=1 << 30)
MIB = 1024 * 1024


def event(number: int, cause: str = "c") -> NotificationDropped:
    return NotificationDropped(
        at_ms=number,
        message_id=str(number),
        message_type="Notification",
        topic="t",
        subscription="",
        attempt=0,
        cause=cause,
    )


@contextmanager
def writing(directory: Path, clock: Clock | None = None, limits: SegmentLimits = LIMITS) -> Iterator[SegmentWriter]:
    writer = SegmentWriter(directory, "test", clock or Clock(), limits)
    try:
        yield writer
    finally:
        writer.close()


def files(directory: Path, suffix: str = ".jsonl") -> list[Path]:
    found = os.walk(directory)  # passes over a folder that is removed meanwhile
    return sorted(Path(folder) / name for folder, _, names in found for name in names if name.endswith(suffix))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def counts(writer: SegmentWriter, name: str) -> dict[str, float]:
    return {dict(s.labels).get("reason", ""): s.value for s in writer.samples() if s.name == name}


def test_a_segment_says_whose_events_it_has_and_which(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        for number in range(1, 4):
            writer.emit(event(number))
    (path,) = files(tmp_path)
    opened, *events, sealed = lines_of(path)
    assert (opened["event"], opened["process"], opened["first_sequence"]) == ("segment.opened", "test", 1)
    assert [line["sequence"] for line in events] == [1, 2, 3]
    assert [line["at_ms"] for line in events] == [1, 2, 3]
    assert {line["boot"] for line in (opened, *events, sealed)} == {opened["boot"]}
    assert (sealed["first_sequence"], sealed["last_sequence"], sealed["events"]) == (1, 3, 3)
    assert (sealed["recovered"], sealed["stopped"]) == (False, True)
    assert path.name == f"test-{opened['boot']}-000000000001.jsonl"
    assert counts(writer, "cns_events_written_total") == {"": 3}


def test_without_events_there_is_no_segment(tmp_path: Path) -> None:
    with writing(tmp_path):
        pass
    assert list(tmp_path.rglob("*")) == []


def test_nothing_written_is_readable_by_others(tmp_path: Path) -> None:
    with writing(tmp_path / "events") as writer:
        writer.emit(event(1))
    (path,) = files(tmp_path)
    assert path.stat().st_mode & 0o077 == 0


def test_a_segment_ends_by_size_and_the_next_goes_on_counting(tmp_path: Path) -> None:
    limits = SegmentLimits(segment_bytes_max=1, segment_age_s=60, retention_s=86_400, bytes_max=1 << 30)
    with writing(tmp_path, limits=limits) as writer:
        writer.emit(event(1))
        wait_until(lambda: files(tmp_path))
        writer.emit(event(2))
    first, second, *_ = [lines_of(path) for path in files(tmp_path)]
    assert (first[-1]["last_sequence"], second[0]["first_sequence"]) == (1, 2)


def test_the_last_segment_says_that_its_writer_stopped(tmp_path: Path) -> None:
    """Also where the segment of the last event was sealed before."""
    clock = Clock()
    with writing(tmp_path, clock) as writer:
        writer.emit(event(1))
        wait_until(lambda: files(tmp_path, ".open"))
        clock.advance(60_000)
        wait_until(lambda: files(tmp_path))
    before, last = [lines_of(path)[-1] for path in files(tmp_path)]
    assert [(sealed["last_sequence"], sealed["events"], sealed["stopped"]) for sealed in (before, last)] == [
        (1, 1, False),
        (1, 0, True),
    ]


def test_a_segment_ends_by_age(tmp_path: Path) -> None:
    clock = Clock()
    with writing(tmp_path, clock) as writer:
        writer.emit(event(1))
        wait_until(lambda: files(tmp_path, ".open"))
        assert files(tmp_path) == []
        clock.advance(60_000)
        wait_until(lambda: files(tmp_path))


def test_a_segment_lies_in_the_hour_it_was_opened_in(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        writer.emit(event(1))
    (path,) = files(tmp_path)
    opened_s = lines_of(path)[0]["at_ms"] / 1000
    assert str(path.parent.relative_to(tmp_path)) == time.strftime("%Y-%m-%d/%H", time.gmtime(opened_s))


# -- crashes ----------------------------------------------------------------------------------------------------------

WRITE_FOR_EVER = """
import sys
import time
from pathlib import Path
from cns_common.clock import Clock
from cns_common.events.writer import SegmentWriter
from tests.unit.common.test_segments import LIMITS, event
writer = SegmentWriter(Path(sys.argv[1]), "victim", Clock(), LIMITS)
number = 0
while True:
    number += 1
    writer.emit(event(number))
    while number - writer.samples()[0].value > 1_000:  # else it outruns the disk, and the buffer gets full
        time.sleep(0.001)
"""


def test_what_a_killed_process_left_open_is_sealed_by_the_next_start(tmp_path: Path) -> None:
    victim = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)], cwd=Path(__file__).parents[3])
    try:
        wait_until(lambda: any(path.stat().st_size > MIB for path in files(tmp_path, ".open")))
        with writing(tmp_path):  # the writer lives: its segment is left alone
            pass
        assert len(files(tmp_path, ".open")) == 1
    finally:
        victim.send_signal(signal.SIGKILL)  # the victim would write for ever
        victim.wait(PATIENCE_S)
    with writing(tmp_path):
        wait_until(lambda: not files(tmp_path, ".open"))
    (path,) = files(tmp_path)
    lines = lines_of(path)
    assert [line["sequence"] for line in lines[1:-1]] == list(range(1, len(lines) - 1))
    assert (lines[-1]["recovered"], lines[-1]["events"]) == (True, len(lines) - 2)
    assert lines[-1]["process"] == "victim"


# -- a disk that refuses ----------------------------------------------------------------------------------------------


def test_a_directory_that_cannot_be_written_is_counted_and_nothing_raised(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("not a directory")
    with writing(tmp_path / "events") as writer:
        writer.emit(event(1))
        wait_until(lambda: counts(writer, "cns_events_lost_total")["disk_refused"] == 1)
    assert counts(writer, "cns_events_written_total") == {"": 0}


def emit_until_refused(writer: SegmentWriter, directory: Path) -> None:
    """Emit two events. The file size limit stops the write of the second in the middle of its line, as a full disk
    does. The file appears before the first one is in it."""
    writer.emit(event(1))
    wait_until(lambda: counts(writer, "cns_events_written_total") == {"": 1})
    with file_size_limit(files(directory, ".open")[0].stat().st_size + 100):
        writer.emit(event(2, "x" * 200))
        wait_until(lambda: counts(writer, "cns_events_lost_total")["disk_refused"] == 1)


def test_a_full_disk_leaves_whole_lines_and_a_gap_that_is_known(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        emit_until_refused(writer, tmp_path)
        writer.emit(event(3))
    (path,) = files(tmp_path)
    lines = lines_of(path)
    assert [line["sequence"] for line in lines[1:-1]] == [1, 3]
    assert (lines[-1]["last_sequence"], lines[-1]["events"]) == (3, 2)


def test_events_that_a_full_disk_refused_last_are_a_known_gap_too(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        emit_until_refused(writer, tmp_path)
    (path,) = files(tmp_path)
    sealed = lines_of(path)[-1]
    assert (sealed["last_sequence"], sealed["events"], sealed["stopped"]) == (2, 1, True)


def test_a_disk_that_hangs_bounds_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "BUFFER_BYTES_MAX", 10_000)
    stuck = StuckDisk(monkeypatch)
    with writing(tmp_path) as writer:
        writer.emit(event(1))
        stuck.wait()
        for number in range(2, 200):
            writer.emit(event(number))
        refused = counts(writer, "cns_events_lost_total")["buffer_full"]
        assert 100 < refused < 198
        stuck.go_on()
    (path,) = files(tmp_path)
    assert lines_of(path)[-1]["events"] == 199 - refused


class StuckDisk:
    """A write that blocks until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._read, self._write = os.pipe()
        self._entered = self._left = False
        write: Callable[[int, Any], int] = os.write

        def slow(fd: int, data: Any) -> int:
            if not self._entered:
                self._entered = True
                os.read(self._read, 1)
                self._left = True
            return write(fd, data)

        monkeypatch.setattr(os, "write", slow)
        self._real_write = write

    def wait(self) -> None:
        wait_until(lambda: self._entered)

    def go_on(self) -> None:
        self._real_write(self._write, b"x")
        wait_until(lambda: self._left)
        os.close(self._write)
        os.close(self._read)


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


# -- retention --------------------------------------------------------------------------------------------------------


def test_a_writer_tidies_up_as_time_goes_by(tmp_path: Path) -> None:
    old = tmp_path / "1970-01-01" / "03" / "p.jsonl"
    old.parent.mkdir(parents=True)
    old.touch()
    with writing(tmp_path) as writer:
        wait_until(lambda: counts(writer, "cns_event_segments_removed_total")["age"] == 1)
    assert list(tmp_path.iterdir()) == []
