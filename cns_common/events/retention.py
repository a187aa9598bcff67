"""Removes old segments by age, then by the size of all; those that the pipeline has ingested go first.

`EVENTS/ingested` has the names of ingested segments, a line each. `cns pipeline ingest` replaces it after each batch;
without it, no pipeline reads these events, and nothing is said about unread ones.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from cns_common.events.files import folder_at, has_audit_events, stored_segments
from cns_common.file_writer import DatedFile, RemovedFiles, old_files, remove_files
from cns_common.metrics.catalogue import (
    EVENT_SEGMENTS_REMOVED_UNREAD,
    EVENT_SEGMENTS_UNREAD,
    EVENT_SEGMENTS_UNREAD_BYTES,
    EVENT_SEGMENTS_UNREAD_LEFT_SECONDS,
    EVENT_SEGMENTS_UNREAD_SHARE,
)
from cns_common.metrics.model import Sample

INGESTED = "ingested"
DISK_SHARE = 10
"""Without a setting, segments take this part of their disk at most …"""
BYTES_MAX_MIN = 1024**3
"""… or, on a small disk, so much."""
GROWTH_S = 900
"""The growth of the segments is measured over the last 15 minutes."""
_NS = 1_000_000_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSegments:
    """The sealed segments that were not ingested yet. `share`: how near the first one is to its removal, 0 to 1."""

    segments: int
    size_bytes: int
    share: float
    left_s: float  # until the first one is removed, at the present growth


class SegmentRetention:
    """The retention of one directory, which every process of the machine applies. Only `samples` is for any thread."""

    def __init__(self, directory: Path, retention_s: int, bytes_max: int) -> None:
        """`bytes_max` is the size of all segments together."""
        self._directory = directory
        self._retention_s = retention_s
        self._bytes_max = bytes_max
        self._marker = (0, 0)  # modification time and inode of the file of which `_ingested` are the names
        self._ingested: frozenset[str] | None = None
        self._unread: UnreadSegments | None = None
        self._removed_unread = 0

    def samples(self) -> list[Sample]:
        removed = EVENT_SEGMENTS_REMOVED_UNREAD.sample(self._removed_unread)
        unread = self._unread
        if unread is None:
            return [removed]
        return [
            removed,
            EVENT_SEGMENTS_UNREAD.sample(unread.segments),
            EVENT_SEGMENTS_UNREAD_BYTES.sample(unread.size_bytes),
            EVENT_SEGMENTS_UNREAD_SHARE.sample(round(unread.share, 4)),
            EVENT_SEGMENTS_UNREAD_LEFT_SECONDS.sample(round(unread.left_s)),
        ]

    def remove_old(self, now_ms: int, wall_ms: int) -> RemovedFiles:
        """`now_ms` is of the service's clock, `wall_ms` of the clock of the files. Raises OSError."""
        self._read_marker()
        files = list(stored_segments(self._directory))
        first_period = folder_at(now_ms - self._retention_s * 1000)
        removable = [file for file in files if file.period < first_period or not self._is_kept(file)]
        old = old_files(removable, first_period, self._bytes_max, self._is_ingested)
        removed = remove_files(old)
        if self._ingested is not None:
            self._log_unread([file for file in (*removed.aged, *removed.crowded) if not self._is_ingested(file)])
            gone = {file.path for file in (*old.aged, *old.crowded)}
            self._unread = self._judge([file for file in files if file.path not in gone], wall_ms)
        return removed.numbers()

    def _read_marker(self) -> None:
        path = self._directory / INGESTED
        with contextlib.suppress(FileNotFoundError):
            facts = path.stat()
            marker = (facts.st_mtime_ns, facts.st_ino)
            if marker != self._marker:
                self._ingested = frozenset(path.read_text(errors="replace").splitlines())
                self._marker = marker

    def _is_kept(self, file: DatedFile) -> bool:
        """Audit events that were not ingested are removed for their age only."""
        return has_audit_events(file.path) and not self._is_ingested(file)

    def _is_ingested(self, file: DatedFile) -> bool:
        return self._ingested is not None and file.path.name in self._ingested

    def _log_unread(self, files: Sequence[DatedFile]) -> None:
        if files:
            self._removed_unread += len(files)
            size_bytes = sum([file.size_bytes for file in files])
            log.warning("event_segment.removed_unread", segments=len(files), bytes=size_bytes, last=files[-1].path.name)

    def _judge(self, files: Sequence[DatedFile], wall_ms: int) -> UnreadSegments:
        unread = [file for file in files if not self._is_ingested(file)]
        size_bytes = sum([file.size_bytes for file in unread])
        wall_ns = wall_ms * 1_000_000
        age_s = max(wall_ns - min([file.written_ns for file in unread], default=wall_ns), 0) / _NS
        recent_bytes = sum([file.size_bytes for file in files if file.written_ns > wall_ns - GROWTH_S * _NS])
        room_bytes = max(self._bytes_max - size_bytes, 0)
        return UnreadSegments(
            segments=len(unread),
            size_bytes=size_bytes,
            share=min(max(size_bytes / self._bytes_max, age_s / self._retention_s), 1.0),
            left_s=min(max(self._retention_s - age_s, 0.0), room_bytes * GROWTH_S / max(recent_bytes, 1)),
        )


def default_bytes_max(directory: Path) -> int:
    """The limit of a directory that has no setting: a share of its disk."""
    there = next((path for path in (directory, *directory.absolute().parents) if path.exists()), Path("/"))
    try:
        total_bytes = shutil.disk_usage(there).total
    except OSError:
        return BYTES_MAX_MIN
    return max(total_bytes // DISK_SHARE, BYTES_MAX_MIN)
