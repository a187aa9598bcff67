"""Delivery status logs on disk: a folder for each log group, in it a file for each day and process.

logs/sns/us-east-1/123456789012/orders/2026-11-21-worker-1f0c…-000.jsonl            accepted by the endpoint
logs/sns/us-east-1/123456789012/orders/Failure/2026-11-21-worker-1f0c…-000.jsonl    failed

One file is open at a time, however many topics are logged.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.file_writer import (
    FileWriter,
    LineBatch,
    RemovedFiles,
    WriterMetrics,
    append_all,
    remove_old,
    stored_file,
)
from cns_common.ids import hex_id
from cns_common.metrics.catalogue import (
    DELIVERY_LOG_FILES_REMOVED,
    DELIVERY_LOG_RECORDS_LOST,
    DELIVERY_LOG_RECORDS_WRITTEN,
)

SUFFIX = ".jsonl"
FILE_BYTES_MAX = 16 * 1024 * 1024
CLEAN_UP_INTERVAL_S = 3_600.0
NUMBERS_REMEMBERED = 10_000
NAME_BYTES_MAX = 200
"""The limit of a folder's name. A topic's name may have 256 characters; file systems take 255 bytes."""
BOOT_CHARS = 12
MODE = 0o600
STORE_UNAVAILABLE = "store_unavailable"
METRICS = WriterMetrics(DELIVERY_LOG_RECORDS_WRITTEN, DELIVERY_LOG_RECORDS_LOST, DELIVERY_LOG_FILES_REMOVED)
_DATE_CHARS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """`bytes_max` limits all files of this machine together, roughly. A file of `file_bytes_max` gets no more
    batches."""

    days: int
    bytes_max: int
    file_bytes_max: int = FILE_BYTES_MAX


class DeliveryLogWriter(FileWriter):
    """May be used from any thread."""

    def __init__(self, directory: Path, clock: Clock, limits: LogLimits) -> None:
        super().__init__(
            "delivery-logs", clock, METRICS, bytes_max=limits.bytes_max, clean_up_interval_s=CLEAN_UP_INTERVAL_S
        )
        self._directory = directory
        self._limits = limits
        self._process = f"worker-{hex_id()[:BOOT_CHARS]}"
        self._lost[STORE_UNAVAILABLE] = 0
        self._file_numbers: BoundedCache[tuple[str, str], int] = BoundedCache(NUMBERS_REMEMBERED)
        self.start()

    def append(self, group: str, line: bytes) -> None:
        with self._lock:
            self._append(group, line)

    def count_unknown(self, n: int) -> None:
        """Count records as lost because the store did not say whether they are wanted."""
        with self._lock:
            self._lost[STORE_UNAVAILABLE] += n

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _write(self, group: str, batch: LineBatch) -> None:
        fd = self._open(group)
        try:
            append_all(fd, batch.lines)
        finally:
            os.close(fd)

    def _open(self, group: str) -> int:
        """The group's file of this day that has room left."""
        folder = folder_of(self._directory, group)
        date = _date_text(self._clock.now_ms())
        number = self._file_numbers.get((group, date)) or 0
        while True:
            fd = _open_to_append(folder / f"{date}-{self._process}-{number:03d}{SUFFIX}")
            if os.fstat(fd).st_size < self._limits.file_bytes_max:
                return fd
            os.close(fd)
            number += 1
            self._file_numbers.put((group, date), number)

    def _remove_old(self, now_ms: int) -> RemovedFiles:
        first_date = _date_text(now_ms - self._limits.days * DAY_MS)
        return remove_old_logs(self._directory, first_date, self._limits.bytes_max)


def folder_of(directory: Path, group: str) -> Path:
    """The folder of a log group. No name of a group leads out of the directory."""
    return directory.joinpath(*[_safe(part) for part in group.split("/")])


def remove_old_logs(directory: Path, first_date: str, bytes_max: int) -> RemovedFiles:
    """Remove the files of days before `first_date`, then the oldest of what exceeds `bytes_max`."""
    files = [stored_file(path, path.name[:_DATE_CHARS]) for path in directory.rglob(f"*{SUFFIX}")]
    return remove_old(filter(None, files), first_date, bytes_max)


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


def _date_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
