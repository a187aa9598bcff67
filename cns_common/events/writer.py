"""Writes a process's events as segments.

A sequence number is given even to an event that is lost, so that readers of the segments see the gap.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from cns_common.clock import Clock
from cns_common.events.files import (
    NEW,
    OPEN,
    SEALED,
    encoder,
    fact_line,
    folder_at,
    origin_of,
    remove_old_segments,
    seal_orphans,
    segment_name,
)
from cns_common.events.schema import Event, EventSink, NoEvents, SegmentOpened, SegmentSealed
from cns_common.file_writer import Batch, FileWriter, RemovedFiles, WriterMetrics, append_all
from cns_common.ids import hex_id
from cns_common.metrics.catalogue import EVENT_SEGMENTS_REMOVED, EVENTS_LOST, EVENTS_WRITTEN
from cns_common.metrics.model import Sample

CLEAN_UP_INTERVAL_S = 60.0
BOOT_CHARS = 16
METRICS = WriterMetrics(EVENTS_WRITTEN, EVENTS_LOST, EVENT_SEGMENTS_REMOVED)
_GROUP = ""
"""The one group of lines: a process writes one segment at a time."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """When a segment ends, and when it is removed."""

    segment_bytes_max: int
    segment_age_s: int
    retention_s: int
    bytes_max: int


class EventLog(EventSink, Protocol):
    """An event sink that its process opens and closes."""

    def samples(self) -> list[Sample]: ...

    def close(self) -> None: ...


class NoEventLog(NoEvents):
    """See `EventLog`."""

    def samples(self) -> list[Sample]:
        return []

    def close(self) -> None: ...


class SegmentWriter(FileWriter):
    """See `EventLog`. May be used from any thread."""

    def __init__(self, directory: Path, process: str, clock: Clock, limits: SegmentLimits) -> None:
        super().__init__("events", clock, METRICS, bytes_max=limits.bytes_max, clean_up_interval_s=CLEAN_UP_INTERVAL_S)
        self._directory = directory
        self._process = process
        self._limits = limits
        self._boot = hex_id()[:BOOT_CHARS]
        self._origin = origin_of(self._boot)
        self._segment: _Segment | None = None
        self.start()

    def emit(self, event: Event) -> None:
        members = encoder.encode(event)[1:]  # without the brace, which the origin opens
        with self._lock:
            self._number = sequence = self._number + 1
            self._append(_GROUP, b"%b%d,%b\n" % (self._origin, sequence, members))

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _write(self, group: str, batch: Batch) -> None:
        segment = self._segment
        if segment is None:
            segment = self._segment = _Segment(
                self._directory, self._process, self._boot, batch.first_number, self._clock.now_ms()
            )
        try:
            segment.append(batch)
        except OSError:
            if not segment.is_whole():
                self._segment = None
                segment.leave()
            raise

    def _rotate(self) -> None:
        segment = self._segment
        if segment is None or not (self._stopping or segment.has_ended(self._clock.now_ms(), self._limits)):
            return
        self._segment = None
        try:
            segment.seal(self._clock.now_ms())
        except OSError as error:
            log.warning("event_segment.seal_failed", error=str(error))
            segment.leave()

    def _remove_old(self, now_ms: int) -> RemovedFiles:
        if orphans := seal_orphans(self._directory, now_ms):
            log.info("event_segment.recovered", segments=orphans)
        keep_from_ms = now_ms - self._limits.retention_s * 1000
        return remove_old_segments(self._directory, keep_from_ms, self._limits.bytes_max)


class _Segment:
    """The file that is being written."""

    def __init__(self, directory: Path, process: str, boot: str, first_sequence: int, now_ms: int) -> None:
        self._process = process
        self._boot = boot
        self._first_sequence = self._last_sequence = first_sequence
        self._opened_at_ms = now_ms
        self._events = 0
        self._size_bytes = 0
        folder = directory / folder_at(now_ms)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / segment_name(process, boot, first_sequence)
        created = self._path.with_name(self._path.name + NEW)
        self._fd = os.open(created, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # before others can find it
            opened = SegmentOpened(at_ms=now_ms, process=process, first_sequence=first_sequence)
            self._write(fact_line(boot, opened))
            created.rename(self._path.with_name(self._path.name + OPEN))
        except OSError:
            self.leave()
            created.unlink(missing_ok=True)
            raise

    def append(self, batch: Batch) -> None:
        self._write(batch.lines)
        self._events += batch.n
        self._last_sequence = batch.last_number

    def has_ended(self, now_ms: int, limits: SegmentLimits) -> bool:
        too_old = now_ms - self._opened_at_ms >= limits.segment_age_s * 1000
        return too_old or self._size_bytes >= limits.segment_bytes_max

    def seal(self, now_ms: int) -> None:
        sealed = SegmentSealed(
            at_ms=now_ms,
            process=self._process,
            first_sequence=self._first_sequence,
            last_sequence=self._last_sequence,
            events=self._events,
            torn_bytes=0,
            recovered=False,
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
