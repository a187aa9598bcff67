"""Writes a process's events as segments.

A sequence number is given even to an event that is lost, so that readers of the segments see the gap.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import structlog

from cns_common.clock import Clock
from cns_common.events.files import encoder, seal_orphans
from cns_common.events.retention import SegmentRetention
from cns_common.events.schema import Event, EventSink, NoEvents
from cns_common.events.segment import SegmentLimits, SegmentSeries
from cns_common.file_writer import FileWriter, LineBatch, RemovedFiles, WriterMetrics
from cns_common.metrics.catalogue import EVENT_SEGMENTS_REMOVED, EVENTS_LOST, EVENTS_WRITTEN
from cns_common.metrics.model import Sample

CLEAN_UP_INTERVAL_S = 60.0
METRICS = WriterMetrics(EVENTS_WRITTEN, EVENTS_LOST, EVENT_SEGMENTS_REMOVED)
_GROUP = ""
"""The one group of lines: a process writes one segment at a time."""

log = structlog.get_logger(__name__)


class EventLog(EventSink, Protocol):
    """An event sink that its process opens and closes."""

    def samples(self) -> list[Sample]: ...

    def close(self) -> None: ...


class NoEventLog(NoEvents, EventLog):
    def samples(self) -> list[Sample]:
        return []

    def close(self) -> None: ...


class SegmentWriter(FileWriter, EventLog):
    """May be used from any thread."""

    def __init__(self, directory: Path, process: str, clock: Clock, limits: SegmentLimits) -> None:
        super().__init__("events", clock, METRICS, bytes_max=limits.bytes_max, clean_up_interval_s=CLEAN_UP_INTERVAL_S)
        self._directory = directory
        self._retention = SegmentRetention(directory, limits.retention_s, limits.bytes_max)
        self._series = SegmentSeries(directory, process, clock, limits)
        self._origin = self._series.origin
        self.start()

    def samples(self) -> list[Sample]:
        return [*super().samples(), *self._retention.samples()]

    def emit(self, event: Event) -> None:
        members = encoder.encode(event)[1:]  # without the brace, which the origin opens
        with self._lock:
            self._number = sequence = self._number + 1
            self._append(_GROUP, b"%b%d,%b\n" % (self._origin, sequence, members))

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _write(self, group: str, batch: LineBatch) -> None:
        self._series.append(batch)

    def _rotate(self) -> None:
        self._series.rotate()

    def _end(self) -> None:
        self._series.end(self._number)

    def _remove_old(self, now_ms: int) -> RemovedFiles:
        if orphans := seal_orphans(self._directory, now_ms):
            log.info("event_segment.recovered", segments=orphans)
        return self._retention.remove_old(now_ms, self._clock.real_ms())
