"""Writes lines to files from a thread of its own, so that the work that is written about never waits for a disk.

Lines that the disk refuses are counted and lost, as are lines that find the buffer full while the disk hangs. Old files
are removed by age, then by the size of all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from cns_common.clock import Clock
from cns_common.metrics.model import Metric, Sample

FLUSH_INTERVAL_S = 0.25
"""Seconds between writes: a killed process loses the lines of this time."""
FLUSH_BYTES = 256 * 1024
"""A buffer of this size is written at once."""
BUFFER_BYTES_MAX = 8 * 1024 * 1024
CLOSE_S = 5.0
CLEAN_UP_SHARE = 16
"""Old files are also looked for when this part of the size limit was written."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

log = structlog.get_logger(__name__)


class WriterMetrics(NamedTuple):
    """The metrics of a writer: lines written, lines lost by `reason`, files removed by `reason`."""

    written: Metric
    lost: Metric
    removed: Metric


class LineBatch:
    """Lines of one group that wait to be written, and the numbers of the first and the last."""

    __slots__ = ("first_number", "last_number", "lines", "n")

    def __init__(self, first_number: int) -> None:
        self.lines = bytearray()
        self.n = 0
        self.first_number = first_number
        self.last_number = first_number


class DatedFile(NamedTuple):
    """A file that may be removed. `period` is its day or hour, as text that sorts by time."""

    period: str
    written_ns: int
    size_bytes: int
    path: Path


class RemovedFiles(NamedTuple):
    """Counts of the files that were removed for their age, and for the size of all."""

    age: int
    size: int


class OldFiles(NamedTuple):
    """The files to remove for their age, and for the size of all."""

    aged: Sequence[DatedFile]
    crowded: Sequence[DatedFile]

    def numbers(self) -> RemovedFiles:
        return RemovedFiles(len(self.aged), len(self.crowded))


class FileWriter(ABC):
    """Subclasses say where a group's lines go and which files are old. Their lines may come from any thread."""

    def __init__(
        self, name: str, clock: Clock, metrics: WriterMetrics, *, bytes_max: int, clean_up_interval_s: float
    ) -> None:
        """`bytes_max` is the size of all files at which the oldest are removed."""
        self._name = name
        self._clock = clock
        self._metrics = metrics
        self._bytes_max = bytes_max
        self._clean_up_interval_ms = int(clean_up_interval_s * 1000)
        self._clean_up_at_ms = 0
        self._bytes_since_clean_up = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._waiting: dict[str, LineBatch] = {}
        self._waiting_bytes = 0
        self._number = 0
        self._refused = False
        self._written = 0
        self._lost = dict.fromkeys(("buffer_full", "disk_full", "disk_refused"), 0)
        self._removed = dict.fromkeys(RemovedFiles._fields, 0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def samples(self) -> list[Sample]:
        return [
            self._metrics.written.sample(self._written),
            *[self._metrics.lost.sample(n, reason=reason) for reason, n in self._lost.items()],
            *[self._metrics.removed.sample(n, reason=reason) for reason, n in self._removed.items()],
        ]

    def close(self) -> None:
        """Write what waits, for `CLOSE_S` at most."""
        self._stopping = True
        self._wake.set()
        self._thread.join(CLOSE_S)

    def _append(self, group: str, line: bytes) -> None:
        """Call it with the lock held, after `_number` was raised."""
        if self._waiting_bytes >= BUFFER_BYTES_MAX:
            self._lost["buffer_full"] += 1
            return
        batch = self._waiting.get(group)
        if batch is None:
            batch = self._waiting[group] = LineBatch(self._number)
        batch.lines += line
        batch.n += 1
        batch.last_number = self._number
        self._waiting_bytes += len(line)
        if self._waiting_bytes >= FLUSH_BYTES:
            self._wake.set()

    # -- in the thread ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _write(self, group: str, batch: LineBatch) -> None:
        """Write a batch, all of it or nothing. Raises OSError."""

    @abstractmethod
    def _remove_old(self, now_ms: int) -> RemovedFiles:
        """Raises OSError."""

    def _rotate(self) -> None:  # noqa: B027  # not every writer has something to do
        """Called after each interval."""

    def _end(self) -> None:  # noqa: B027  # as above
        """Called once, after the last line was written."""

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._clean_up()
                self._wake.wait(FLUSH_INTERVAL_S)
                self._wake.clear()
                self._flush()
                self._rotate()
            except Exception as error:  # a bug costs a batch, and not all lines from now on
                log.error("file_writer.crashed", writer=self._name, exc_info=error)
        self._flush()
        self._end()

    def _flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._waiting_bytes = 0
        for group, batch in waiting.items():
            try:
                self._write(group, batch)
            except OSError as error:
                self._count_refused(error, batch.n)
            else:
                self._written += batch.n
                self._bytes_since_clean_up += len(batch.lines)
                self._refused = False

    def _count_refused(self, error: OSError, n: int) -> None:
        with self._lock:
            self._lost["disk_full" if error.errno in _DISK_FULL else "disk_refused"] += n
        if not self._refused:
            log.warning("file_writer.write_failed", writer=self._name, error=str(error))
        self._refused = True

    def _clean_up(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._clean_up_at_ms and self._bytes_since_clean_up * CLEAN_UP_SHARE < self._bytes_max:
            return
        self._clean_up_at_ms = now_ms + self._clean_up_interval_ms
        self._bytes_since_clean_up = 0
        try:
            removed = self._remove_old(now_ms)
        except OSError as error:
            log.warning("file_writer.clean_up_failed", writer=self._name, error=str(error))
        else:
            for reason, n in removed._asdict().items():
                self._removed[reason] += n


def append_all(fd: int, data: bytes | bytearray) -> None:
    """Append all of `data`, or raise OSError and leave the file as it was, as far as the disk allows."""
    size_bytes = os.fstat(fd).st_size
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size_bytes)  # no half of a line stays
        raise


def remove_old(files: Iterable[DatedFile], first_period: str, bytes_max: int) -> RemovedFiles:
    """Remove the files of periods before `first_period`, then the oldest of what exceeds `bytes_max`."""
    return remove_files(old_files(files, first_period, bytes_max)).numbers()


def old_files(
    files: Iterable[DatedFile],
    first_period: str,
    bytes_max: int,
    goes_first: Callable[[DatedFile], bool] = lambda _: False,
) -> OldFiles:
    """Choose what is to be removed. Of what exceeds `bytes_max`, the oldest that `goes_first`, then the oldest."""
    ordered = sorted(files)
    aged = [file for file in ordered if file.period < first_period]
    kept = ordered[len(aged) :]
    excess_bytes = sum(file.size_bytes for file in kept) - bytes_max
    crowded = []
    for file in sorted(kept, key=goes_first, reverse=True):  # keeps the order among equals
        if excess_bytes <= 0:
            break
        excess_bytes -= file.size_bytes
        crowded.append(file)
    return OldFiles(aged, crowded)


def remove_files(old: OldFiles) -> OldFiles:
    """Remove the files, and return those that no other process removed meanwhile."""
    aged = [file for file in old.aged if _remove(file.path)]
    crowded = [file for file in old.crowded if _remove(file.path)]
    for folder in {file.path.parent for file in old.aged}:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
            folder.parent.rmdir()
    return OldFiles(aged, crowded)


def _remove(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        return True
    return False


def stored_file(path: Path, period: str) -> DatedFile | None:
    """None: another process removed it meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        facts = path.stat()
        return DatedFile(period, facts.st_mtime_ns, facts.st_size, path)
    return None
