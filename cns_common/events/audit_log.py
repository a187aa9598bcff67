"""Writes the events of audited queues: each is on the disk before its caller goes on, and none is lost (ADR 0013).

Callers that wait at the same time share a write and its fsync. While the disk refuses, the events stay in memory and
are tried again, and `check` refuses new calls. A process has no thread and no segment before its first audit event.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from cns_common.events.audit_events import AuditEvent
from cns_common.events.files import AUDIT_SUFFIX, encoder, seal_orphans
from cns_common.events.retention import SegmentRetention
from cns_common.events.segment import SegmentLimits, SegmentSeries
from cns_common.events.writer import CLEAN_UP_INTERVAL_S
from cns_common.file_writer import LineBatch
from cns_common.metrics.catalogue import AUDIT_EVENTS_WRITTEN, AUDIT_REFUSED
from cns_common.metrics.model import Sample

WRITE_S_MAX = 20.0
"""The longest wait of a call for its events; its answer is then an error, and the events are written later."""
RETRY_S = 0.25
WAITING_BYTES_MAX = 8 * 1024 * 1024
"""Events in memory above which new calls are refused."""
CLOSE_S = 5.0
ROOM_BYTES = 16 * 1024 * 1024
ROOM_SHARE = 8
"""While less than `ROOM_BYTES` is free, or less than this part of a small disk, new calls are refused: the room is the
store's, for deletes on a full disk."""

log = structlog.get_logger(__name__)

_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]


class AuditLog(Protocol):
    """Takes the events of audited queues."""

    def check(self) -> None:
        """Call this before the act that the events will describe. Raises StoreUnavailable while events cannot be
        written."""
        ...

    async def write(self, events: Sequence[AuditEvent]) -> None:
        """The events are in the order of the calls of this method, and durable on return. Raises OutcomeUnknown if they
        are not after `WRITE_S_MAX`."""
        ...

    def samples(self) -> list[Sample]: ...

    def close(self) -> None: ...


class NoAuditLog(AuditLog):
    """The audit log of a process that does not serve tenants' queues."""

    def check(self) -> None:
        raise StoreUnavailable("this process writes no audit events")

    async def write(self, events: Sequence[AuditEvent]) -> None:
        raise OutcomeUnknown("this process writes no audit events")

    def samples(self) -> list[Sample]:
        return []

    def close(self) -> None: ...


class AuditWriter(AuditLog):
    """May be used from any event loop. It also writes the log of administrative acts
    (`cns_common.activity.log`), in segments without the suffix."""

    def __init__(
        self, directory: Path, process: str, clock: Clock, limits: SegmentLimits, suffix: str = AUDIT_SUFFIX
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._retention = SegmentRetention(directory, limits.retention_s, limits.bytes_max)
        self._series = SegmentSeries(directory, process + suffix, clock, limits)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._number = 0
        self._waiting: LineBatch | None = None
        self._waiters: list[_Waiter] = []
        self._refusal = ""  # the disk's answer to the last write; '' if it took it
        self._crowded = False  # whether the disk has too little room
        self._written = 0
        # of the thread
        self._unwritten: LineBatch | None = None
        self._unanswered: list[_Waiter] = []
        self._clean_up_at_ms = 0

    def check(self) -> None:
        if self._thread is None:
            self._crowded = _is_crowded(self._directory)
        if self._crowded:
            raise StoreFull("audit events cannot be written: the disk is nearly full")
        if self._refusal:
            raise StoreUnavailable(f"audit events cannot be written: {self._refusal}")
        waiting = self._waiting
        if waiting is not None and len(waiting.lines) >= WAITING_BYTES_MAX:
            raise StoreUnavailable("too many audit events wait for the disk")

    async def write(self, events: Sequence[msgspec.Struct], within_s: float = WRITE_S_MAX) -> None:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self.write_later(events, [(loop, written)])
        deadline = loop.call_later(within_s, self._give_up, written)  # asyncio.timeout() needs a task
        try:
            await written
        finally:
            deadline.cancel()

    def write_later(self, events: Sequence[msgspec.Struct], waiters: Sequence[_Waiter] = ()) -> None:
        """Write the events soon, and then answer the waiters. Raises OutcomeUnknown while the process ends."""
        with self._lock:
            if self._stopping:
                raise OutcomeUnknown("the process ends: audit events are not written any more")
            for event in events:
                self._append(event)
            self._waiters += waiters
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
                self._thread.start()
        self._wake.set()

    def samples(self) -> list[Sample]:
        if self._crowded and self._thread is None:  # nothing else looks again before the next call
            self._crowded = _is_crowded(self._directory)
        return [
            AUDIT_EVENTS_WRITTEN.sample(self._written),
            AUDIT_REFUSED.sample(float(self._crowded or bool(self._refusal))),
        ]

    def close(self) -> None:
        """Write what waits, for `CLOSE_S` at most."""
        with self._lock:
            self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _give_up(self, written: asyncio.Future[None]) -> None:
        if not written.done():
            reason = self._refusal or "it is slow"
            written.set_exception(OutcomeUnknown(f"audit events are not on the disk yet: {reason}"))

    def _append(self, event: msgspec.Struct) -> None:
        self._number = number = self._number + 1
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = LineBatch(number)
        waiting.lines += b"%b%d,%b\n" % (self._series.origin, number, encoder.encode(event)[1:])
        waiting.n += 1
        waiting.last_number = number

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(RETRY_S)
            self._wake.clear()
            self._step()
        self._step()
        if self._unwritten is not None:  # of calls that were not answered, or with an error
            log.error("audit_log.events_dropped", events=self._unwritten.n, error=self._refusal)
        self._series.end(self._number)

    def _step(self) -> None:
        try:
            self._take()
            self._flush()
            self._crowded = _is_crowded(self._directory)
            self._series.rotate()
            self._clean_up()
        except Exception as error:  # a bug: the events stay, and new calls are refused until they are written
            self._refusal = self._refusal or repr(error)
            log.error("audit_log.crashed", exc_info=error)

    def _take(self) -> None:
        """Move what waits to the thread, behind what the disk refused."""
        with self._lock:
            taken, self._waiting = self._waiting, None
            waiters, self._waiters = self._waiters, []
        self._unanswered += waiters
        held = self._unwritten
        if held is None or taken is None:
            self._unwritten = held or taken
            return
        held.lines += taken.lines
        held.n += taken.n
        held.last_number = taken.last_number

    def _flush(self) -> None:
        batch = self._unwritten
        if batch is not None:
            try:
                self._series.append(batch, sync=True)
            except OSError as error:
                if not self._refusal:
                    log.error("audit_log.write_failed", error=str(error))
                self._refusal = str(error)
                return
            self._unwritten = None
            self._written += batch.n
        self._refusal = ""
        waiters, self._unanswered = self._unanswered, []
        _answer(waiters)

    def _clean_up(self) -> None:
        """Seal orphans and remove old segments. The writer of other events does the same, but may be off."""
        now_ms = self._clock.now_ms()
        if now_ms < self._clean_up_at_ms:
            return
        self._clean_up_at_ms = now_ms + int(CLEAN_UP_INTERVAL_S * 1000)
        try:
            seal_orphans(self._directory, now_ms)
            self._retention.remove_old(now_ms, self._clock.real_ms())
        except OSError as error:
            log.warning("file_writer.clean_up_failed", writer="audit", error=str(error))


def _is_crowded(directory: Path) -> bool:
    """Whether the disk of the directory, or of its nearest parent, has too little room."""
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    try:
        usage = shutil.disk_usage(there)
    except OSError:
        return False  # a write will say what is wrong
    return usage.free < min(ROOM_BYTES, usage.total // ROOM_SHARE)


def _answer(waiters: Sequence[_Waiter]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for loop, written in waiters:
        by_loop.setdefault(loop, []).append(written)
    for loop, futures in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_complete, futures)


def _complete(futures: Sequence[asyncio.Future[None]]) -> None:
    for written in futures:
        if not written.done():  # its caller may have gone
            written.set_result(None)
