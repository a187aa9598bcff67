"""Writes a process's events as segments, and never makes the process wait: encoded at once, written by a thread.

What the disk refuses is counted and let go: events are about the messages, they are not the messages. A sequence number
is given even to an event that is not written, so the gap is known to whoever reads the segments.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
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
    remove_old,
    seal_orphans,
    segment_name,
)
from cns_common.events.schema import Event, EventSink, NoEvents, SegmentOpened, SegmentSealed
from cns_common.ids import hex_id
from cns_common.metrics.catalogue import EVENT_SEGMENTS_REMOVED, EVENTS_LOST, EVENTS_WRITTEN
from cns_common.metrics.model import Sample

FLUSH_S = 0.25
"""What a killed process may not have written."""
FLUSH_BYTES = 256 * 1024
BUFFER_BYTES_MAX = 8 * 1024 * 1024
"""What waits for a disk that hangs; beyond it events are let go."""
TIDY_S = 60.0
CLOSE_S = 5.0
BOOT_CHARS = 16
_COMMA = ord(",")
_FULL = (errno.ENOSPC, errno.EDQUOT)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """When a segment ends, and when it is removed."""

    segment_bytes_max: int
    segment_age_s: int
    retention_s: int
    bytes_max: int


class EventLog(EventSink, Protocol):
    """The sink as the composition root has it."""

    def samples(self) -> list[Sample]: ...

    def close(self) -> None: ...


class NoEventLog(NoEvents):
    """See `EventLog`."""

    def samples(self) -> list[Sample]:
        return []

    def close(self) -> None:
        """Nothing was opened."""


class _Batch:
    """Lines that wait to be written."""

    __slots__ = ("events", "first_sequence", "last_sequence", "lines")

    def __init__(self) -> None:
        self.lines = bytearray()
        self.events = 0
        self.first_sequence = 0
        self.last_sequence = 0


class SegmentWriter:
    """See `EventLog`. May be used from any thread."""

    def __init__(self, directory: Path, process: str, clock: Clock, limits: SegmentLimits) -> None:
        self._directory = directory
        self._process = process
        self._clock = clock
        self._limits = limits
        self._boot = hex_id()[:BOOT_CHARS]
        self._origin = origin_of(self._boot)
        self._sequence = 0
        self._batch = _Batch()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._segment: _Segment | None = None
        self._refusing = False
        self._tidy_at_ms = 0
        self._written = 0
        self._unwritten = dict.fromkeys(("buffer_full", "disk_full", "disk_refused"), 0)
        self._removed = dict.fromkeys(("age", "size"), 0)
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        with self._lock:
            self._sequence = sequence = self._sequence + 1
            batch = self._batch
            lines = batch.lines
            if len(lines) >= BUFFER_BYTES_MAX:
                self._unwritten["buffer_full"] += 1
                return
            lines += self._origin
            lines += b"%d" % sequence
            start = len(lines)
            encoder.encode_into(event, lines, start)
            lines[start] = _COMMA  # was the brace that opened the event's own object
            lines += b"\n"
            batch.events += 1
            batch.last_sequence = sequence
            if batch.events == 1:
                batch.first_sequence = sequence
        if len(lines) >= FLUSH_BYTES:
            self._wake.set()

    def samples(self) -> list[Sample]:
        return [
            EVENTS_WRITTEN.sample(self._written),
            *[EVENTS_LOST.sample(n, reason=reason) for reason, n in self._unwritten.items()],
            *[EVENT_SEGMENTS_REMOVED.sample(n, reason=reason) for reason, n in self._removed.items()],
        ]

    def close(self) -> None:
        """Write what is left and seal it."""
        self._stopping = True
        self._wake.set()
        self._thread.join(CLOSE_S)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            self._tidy()
            self._wake.wait(FLUSH_S)
            self._wake.clear()
            self._flush()
            if self._segment is not None and self._segment.ended(self._clock.now_ms(), self._limits):
                self._seal()
        self._flush()
        self._seal()

    def _flush(self) -> None:
        with self._lock:
            batch, self._batch = self._batch, _Batch()
        if not batch.events:
            return
        try:
            if self._segment is None:
                self._segment = _Segment(
                    self._directory, self._process, self._boot, batch.first_sequence, self._clock.now_ms()
                )
            self._segment.append(batch)
        except OSError as error:
            self._refused(error, batch.events)
        else:
            self._written += batch.events
            self._refusing = False

    def _refused(self, error: OSError, events: int) -> None:
        self._unwritten["disk_full" if error.errno in _FULL else "disk_refused"] += events
        if not self._refusing:
            log.warning("event_log.write_failed", error=str(error))
        self._refusing = True
        if self._segment is not None and not self._segment.mend():
            self._segment.leave()
            self._segment = None

    def _seal(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            try:
                segment.seal(self._clock.now_ms())
            except OSError as error:  # it stays open, and is sealed as an orphan
                log.warning("event_log.seal_failed", error=str(error))
                segment.leave()

    def _tidy(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._tidy_at_ms:
            return
        self._tidy_at_ms = now_ms + int(TIDY_S * 1000)
        keep_from_ms = now_ms - self._limits.retention_s * 1000
        try:
            if orphans := seal_orphans(self._directory, now_ms):
                log.info("event_log.segments_recovered", segments=orphans)
            aged, crowded = remove_old(self._directory, keep_from_ms, self._limits.bytes_max)
        except OSError as error:
            log.warning("event_log.cleanup_failed", error=str(error))
        else:
            self._removed["age"] += aged
            self._removed["size"] += crowded


class _Segment:
    """The one file that is being written."""

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
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held from before anybody can find it
            opened = SegmentOpened(at_ms=now_ms, process=process, first_sequence=first_sequence)
            self._write(fact_line(boot, opened))
            created.rename(self._path.with_name(self._path.name + OPEN))
        except OSError:
            self.leave()
            created.unlink(missing_ok=True)
            raise

    def append(self, batch: _Batch) -> None:
        self._write(batch.lines)
        self._events += batch.events
        self._last_sequence = batch.last_sequence

    def ended(self, now_ms: int, limits: SegmentLimits) -> bool:
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

    def mend(self) -> bool:
        """Cut off what a refused write left behind; whether that worked."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._size_bytes)
            return True
        return False

    def leave(self) -> None:
        """Whoever looks next finds it unlocked."""
        os.close(self._fd)

    def _write(self, data: bytes | bytearray) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]
        self._size_bytes += len(data)
