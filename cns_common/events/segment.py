"""The segments of one boot of a process: one is open at a time, and each ends by its size or age."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import structlog

from cns_common.clock import Clock
from cns_common.data_directory import sync_directory
from cns_common.events.files import NEW, OPEN, SEALED, fact_line, folder_at, origin_of, segment_name
from cns_common.events.schema import SegmentOpened, SegmentSealed
from cns_common.file_writer import LineBatch, append_all
from cns_common.ids import hex_id

BOOT_CHARS = 16

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """When a segment ends, and when it is removed."""

    segment_bytes_max: int
    segment_age_s: int
    retention_s: int
    bytes_max: int


class SegmentSeries:
    """For one thread."""

    def __init__(self, directory: Path, process: str, clock: Clock, limits: SegmentLimits) -> None:
        self._directory = directory
        self._process = process
        self._clock = clock
        self._limits = limits
        self._boot = hex_id()[:BOOT_CHARS]
        self.origin = origin_of(self._boot)
        self._segment: _Segment | None = None
        self._opened: tuple[int, int] = (0, 0)  # first number of the last segment, and how many began with it before

    def append(self, batch: LineBatch, *, sync: bool = False) -> None:
        """Append a batch, all of it or nothing. With `sync` it survives a power loss; if the sync fails, it is unknown
        whether the batch is in the file, and the next one goes to another file. Raises OSError."""
        segment = self._segment
        if segment is None:
            segment = self._segment = self._open(batch.first_number)
        try:
            segment.append(batch)
        except OSError:
            if not segment.is_whole():
                self._leave(segment)
            raise
        if sync:
            try:
                segment.sync()
            except OSError:
                self._leave(segment)
                raise

    def rotate(self) -> None:
        """Seal the segment if its size or age says so."""
        segment = self._segment
        if segment is not None and segment.has_ended(self._clock.now_ms(), self._limits):
            self._seal(segment)

    def end(self, last_number: int) -> None:
        """Seal the last segment; if it was sealed before, a segment without events says that none follow. `last_number`
        is that of the boot's last event, which may be lost; 0: there was none."""
        segment = self._segment
        if segment is None and last_number:
            with contextlib.suppress(OSError):
                segment = self._open(last_number + 1)
        if segment is not None:
            self._seal(segment, last_number)

    def _open(self, first_sequence: int) -> _Segment:
        """After a failed sync a segment begins with the number of the one before; another process may seal that one."""
        last, again = self._opened
        again = again + 1 if first_sequence == last else 0
        name = segment_name(self._process, self._boot, first_sequence, again)
        segment = _Segment(self._directory, name, self._process, self._boot, first_sequence, self._clock.now_ms())
        self._opened = first_sequence, again
        return segment

    def _seal(self, segment: _Segment, last_number: int | None = None) -> None:
        """`last_number`: of the boot, whose last segment it is."""
        self._segment = None
        try:
            segment.seal(self._clock.now_ms(), last_number)
        except OSError as error:
            log.warning("event_segment.seal_failed", error=str(error))
            segment.leave()

    def _leave(self, segment: _Segment) -> None:
        self._segment = None
        segment.leave()


class _Segment:
    """A segment that is being written."""

    def __init__(self, directory: Path, name: str, process: str, boot: str, first_sequence: int, now_ms: int) -> None:
        self._process = process
        self._boot = boot
        self._first_sequence = first_sequence
        self._last_sequence = first_sequence - 1
        self._opened_at_ms = now_ms
        self._events = 0
        self._size_bytes = 0
        self._unsynced_folders: list[Path] = []
        folder = directory / folder_at(now_ms)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / name
        created = self._path.with_name(self._path.name + NEW)
        self._fd = os.open(created, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # before others can find it
            opened = SegmentOpened(at_ms=now_ms, process=process, first_sequence=first_sequence)
            self._write(fact_line(boot, opened))
            created.rename(self._path.with_name(self._path.name + OPEN))
            self._unsynced_folders = [folder, folder.parent, directory]
        except OSError:
            self.leave()
            created.unlink(missing_ok=True)
            raise

    def append(self, batch: LineBatch) -> None:
        self._write(batch.lines)
        self._events += batch.n
        self._last_sequence = batch.last_number

    def sync(self) -> None:
        """On return, the file and all that was appended survive a power loss. Raises OSError."""
        os.fdatasync(self._fd)
        while self._unsynced_folders:
            sync_directory(self._unsynced_folders[-1])
            self._unsynced_folders.pop()

    def has_ended(self, now_ms: int, limits: SegmentLimits) -> bool:
        too_old = now_ms - self._opened_at_ms >= limits.segment_age_s * 1000
        return too_old or self._size_bytes >= limits.segment_bytes_max

    def seal(self, now_ms: int, last_number: int | None) -> None:
        """See `SegmentSeries`. Numbers up to `last_number` that are not in the segment are of lost events."""
        sealed = SegmentSealed(
            at_ms=now_ms,
            process=self._process,
            first_sequence=self._first_sequence,
            last_sequence=max(self._last_sequence, last_number or 0),
            events=self._events,
            torn_bytes=0,
            recovered=False,
            stopped=last_number is not None,
        )
        self._write(fact_line(self._boot, sealed))
        self._path.with_name(self._path.name + OPEN).rename(self._path.with_name(self._path.name + SEALED))
        self.leave()

    def is_whole(self) -> bool:
        """Whether nothing is left of a refused write."""
        return os.fstat(self._fd).st_size == self._size_bytes

    def leave(self) -> None:
        """Unlock the segment as it is: another process, or this one, seals it as an orphan."""
        os.close(self._fd)

    def _write(self, data: bytes | bytearray) -> None:
        append_all(self._fd, data)
        self._size_bytes += len(data)
