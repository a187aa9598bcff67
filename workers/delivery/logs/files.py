"""Delivery status logs on disk: a folder for each log group, in it a file for each day and process.

logs/sns/us-east-1/123456789012/orders/2026-11-21-worker-1f0c…-000.jsonl            what was taken
logs/sns/us-east-1/123456789012/orders/Failure/2026-11-21-worker-1f0c…-000.jsonl    what was not

A thread writes what has gathered, a file at a time: however many topics are logged, one file is open. What the disk
refuses is counted and let go: a log is about the deliveries, and holds up none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import structlog

from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cns_common.metrics.catalogue import (
    DELIVERY_LOG_FILES_REMOVED,
    DELIVERY_LOG_RECORDS_LOST,
    DELIVERY_LOG_RECORDS_WRITTEN,
)
from cns_common.metrics.model import Sample

SUFFIX = ".jsonl"
FLUSH_S = 0.25
"""What a killed process may not have written."""
BUFFER_BYTES_MAX = 8 * 1024 * 1024
"""What waits for a disk that hangs; beyond it records are let go."""
FILE_BYTES_MAX = 16 * 1024 * 1024
LOOK_S = 60.0
TIDY_MS = 3_600_000
TIDY_SHARE = 16
"""Sizes are added up anew after this part of the limit was written."""
CLOSE_S = 5.0
NUMBERS_REMEMBERED = 10_000
NAME_BYTES_MAX = 200
"""Of a folder's name: a topic's may have 256 characters, which file systems do not take."""
BOOT_CHARS = 12
MODE = 0o600
DAY_MS = 24 * 3_600_000
_DATE_CHARS = 10
_FULL = (errno.ENOSPC, errno.EDQUOT)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """`bytes_max` is of all files of this machine together, about; `file_bytes_max` of one, before the last batch."""

    days: int
    bytes_max: int
    file_bytes_max: int = FILE_BYTES_MAX


class LogFiles:
    """May be used from any thread."""

    def __init__(self, directory: Path, clock: Clock, limits: LogLimits) -> None:
        self._directory = directory
        self._clock = clock
        self._limits = limits
        self._process = f"worker-{hex_id()[:BOOT_CHARS]}"
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._waiting: dict[str, list[bytes]] = {}
        self._waiting_bytes = 0
        self._numbers: BoundedCache[tuple[str, str], int] = BoundedCache(NUMBERS_REMEMBERED)
        self._refusing = False
        self._tidy_at_ms = 0
        self._untidied_bytes = 0
        self._written = 0
        self._lost = dict.fromkeys(("buffer_full", "disk_full", "disk_refused", "store_away"), 0)
        self._removed = dict.fromkeys(("age", "size"), 0)
        self._thread = threading.Thread(target=self._run, name="delivery-log", daemon=True)
        self._thread.start()

    def append(self, group: str, line: bytes) -> None:
        with self._lock:
            if self._waiting_bytes >= BUFFER_BYTES_MAX:
                self._lost["buffer_full"] += 1
                return
            self._waiting.setdefault(group, []).append(line)
            self._waiting_bytes += len(line)
        if not self._wake.is_set():
            self._wake.set()

    def lost(self, records: int) -> None:
        """They could not be made, because the store did not say whether they are wanted."""
        with self._lock:
            self._lost["store_away"] += records

    def samples(self) -> list[Sample]:
        return [
            DELIVERY_LOG_RECORDS_WRITTEN.sample(self._written),
            *[DELIVERY_LOG_RECORDS_LOST.sample(n, reason=reason) for reason, n in self._lost.items()],
            *[DELIVERY_LOG_FILES_REMOVED.sample(n, reason=reason) for reason, n in self._removed.items()],
        ]

    def close(self) -> None:
        """Write what is left."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(CLOSE_S)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._tidy()
                if self._wake.wait(LOOK_S):
                    self._stopping.wait(FLUSH_S)
                    self._wake.clear()
                    self._flush()
            except Exception as error:  # a fault of ours costs a batch, not all that is logged from now on
                log.error("delivery_log.crashed", exc_info=error)
        self._flush()

    def _flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._waiting_bytes = 0
        for group, lines in waiting.items():
            try:
                self._write(group, b"".join(lines))
            except OSError as error:
                self._refused(error, len(lines))
            else:
                self._written += len(lines)
                self._refusing = False

    def _refused(self, error: OSError, records: int) -> None:
        with self._lock:
            self._lost["disk_full" if error.errno in _FULL else "disk_refused"] += records
        if not self._refusing:
            log.warning("delivery_log.write_failed", error=str(error))
        self._refusing = True

    def _write(self, group: str, data: bytes) -> None:
        fd = self._open(group)
        try:
            size = os.fstat(fd).st_size
            try:
                _write_all(fd, data)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, size)  # no half of a line stays
                raise
        finally:
            os.close(fd)
        self._untidied_bytes += len(data)

    def _open(self, group: str) -> int:
        """The group's file of this day that has room left."""
        folder = folder_of(self._directory, group)
        date = _date_text(self._clock.now_ms())
        number = self._numbers.get((group, date)) or 0
        while True:
            fd = _open_to_append(folder / f"{date}-{self._process}-{number:03d}{SUFFIX}")
            if os.fstat(fd).st_size < self._limits.file_bytes_max:
                return fd
            os.close(fd)
            number += 1
            self._numbers.put((group, date), number)

    def _tidy(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._tidy_at_ms and self._untidied_bytes * TIDY_SHARE < self._limits.bytes_max:
            return
        self._tidy_at_ms = now_ms + TIDY_MS
        self._untidied_bytes = 0
        first_kept = _date_text(now_ms - self._limits.days * DAY_MS)
        try:
            aged, crowded = remove_old(self._directory, first_kept, self._limits.bytes_max)
        except OSError as error:
            log.warning("delivery_log.cleanup_failed", error=str(error))
        else:
            self._removed["age"] += aged
            self._removed["size"] += crowded


def folder_of(directory: Path, group: str) -> Path:
    """Where a log group lies; no name leads out of the directory, whatever it is."""
    return directory.joinpath(*[_safe(part) for part in group.split("/")])


def remove_old(directory: Path, first_kept: str, bytes_max: int) -> tuple[int, int]:
    """Remove the files of days before `first_kept`, then the oldest of what exceeds the size; how many those were."""
    files = sorted(_files(directory))
    excess_bytes = sum(size for date, _, size, _ in files if date >= first_kept) - bytes_max
    aged = crowded = 0
    for date, _, size, path in files:
        if date < first_kept:
            aged += 1
        elif excess_bytes > 0:
            excess_bytes -= size
            crowded += 1
        else:
            break
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty
            path.parent.rmdir()
    return aged, crowded


def _files(directory: Path) -> Iterator[tuple[str, int, int, Path]]:
    """Date, when it was last written to, size and path of each."""
    for path in directory.rglob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process tidies, too
            facts = path.stat()
            yield path.name[:_DATE_CHARS], facts.st_mtime_ns, facts.st_size, path


def _safe(part: str) -> str:
    name = quote(part, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) <= NAME_BYTES_MAX:
        return name
    return f"{name[:NAME_BYTES_MAX]}~{sha256(part.encode()).hexdigest()[:32]}"


def _open_to_append(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags, MODE)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(path, flags, MODE)


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _date_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
