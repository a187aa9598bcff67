"""Finds the events of one message: segments are searched as bytes, and only lines with the message's id are decoded.

Gaps are reported too. A process numbers its events from 1, so a number in none of its segments is an event that was
never written, or that was in a segment removed for its age.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from cns_common.durations import HOUR_MS
from cns_common.errors import UNREADABLE
from cns_common.events.files import SEALED, folder_at, open_segment
from cns_common.events.reverse_reader import folders_backwards
from cns_common.events.schema import SCHEMA_VERSION, Event, NotificationEvent, Origin, PublishAccepted, SegmentSealed

BLOCK_BYTES = 4 * 1024 * 1024
EARLY_MS = 10_000
"""An event of a message may have been written so long before the one of its publish: processes buffer events."""
_SUBSCRIPTION = re.compile(rb'"subscription":"([^"]+)"')
_FAILED = (b'"outcome":"failed"', b'"event":"delivery.dead_lettered"', b'"event":"notification.dropped"')
_NAME = re.compile(rf"((?P<process>.+)-(?P<boot>[^-]+)-(?P<first>\d+)){re.escape(SEALED)}(?:\.open)?")


class _EventTime(msgspec.Struct, frozen=True):
    at_ms: int


_timed_decoder = msgspec.json.Decoder(_EventTime)
_event_decoder = msgspec.json.Decoder(Event)
_origin_decoder = msgspec.json.Decoder(Origin)
_sealed_decoder = msgspec.json.Decoder(SegmentSealed)


class FoundEvent(msgspec.Struct, frozen=True):
    """An event, and the process that wrote it."""

    process: str
    boot: str
    sequence: int
    event: NotificationEvent


class EventGap(msgspec.Struct, frozen=True, kw_only=True):
    """Sequence numbers of a process that are missing, all or some of them. Without `last_sequence`, a crash cut off a
    line, and how many events would have followed is unknown."""

    process: str
    boot: str
    first_sequence: int
    last_sequence: int | None
    removed: bool = False
    """Whether they were in earlier segments, which were removed for their age."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    events: tuple[FoundEvent, ...]  # by time
    gaps: tuple[EventGap, ...]
    unread: int  # lines with the id that are no events of this version
    left_out: int  # lines about subscriptions beyond those that were to be read
    segments: int
    searched_bytes: int


class _Segment(NamedTuple):
    path: Path
    process: str
    boot: str
    first_sequence: int


class _SegmentMatches(NamedTuple):
    lines: list[bytes]
    size_bytes: int
    last_line: bytes


class _Selection:
    """The lines to keep: those about no subscription, about the one that is asked for, and about the first `n_max`
    others that failed, and as many that did not. What is kept of a subscription is all that follows its first line."""

    def __init__(self, asked: str, n_max: int | None) -> None:
        self._asked = asked.encode()
        self._n_max = n_max
        self._failed: set[bytes] = set()
        self._others: set[bytes] = set()
        self.left_out = 0

    def keeps(self, line: bytes) -> bool:
        if self._n_max is None:
            return True
        found = _SUBSCRIPTION.search(line)
        if found is None or found[1] == self._asked or found[1] in self._failed or found[1] in self._others:
            return True
        kept = self._failed if any(mark in line for mark in _FAILED) else self._others
        if len(kept) < self._n_max:
            kept.add(found[1])
            return True
        self.left_out += 1
        return False


def search_segments(
    directories: Sequence[Path],
    message_id: str,
    since_ms: int = 0,
    subscription: str = "",
    subscriptions_max: int | None = None,
) -> SearchResult:
    """The events of the message in segments written after `since_ms`, a time of the service's clock. Those about
    `subscription` are all read; of others those about `subscriptions_max` that failed, and as many that did not."""
    search = _Search(message_id, subscription, subscriptions_max)
    for segment in _segments(directories, since_ms):
        search.read(segment)
    return search.result(complete=since_ms == 0)


def search_back_to_publish(
    directories: Sequence[Path], message_id: str, subscription: str = "", subscriptions_max: int | None = None
) -> SearchResult:
    """As `search_segments`, from the newest segment back to the publish: older ones are read only if that is not found.
    So a recent message costs little, however many events are kept. The files must not be copies: their times count."""
    search = _Search(message_id, subscription, subscriptions_max)
    for folder in folders_backwards(directories):
        is_last = search.accepted_ms > 0  # it has segments that were written into the hour of the publish
        for segment in filter(None, [_segment(file.path) for file in folder]):
            if search.read(segment) < search.accepted_ms - EARLY_MS:
                break
        if is_last:
            return search.result(complete=False)
    return search.result(complete=not search.accepted_ms)


class _Search:
    """Reads segments, and collects what they have of one message."""

    def __init__(self, message_id: str, subscription: str, subscriptions_max: int | None) -> None:
        self.accepted_ms = 0  # time of the message's first event, once that is read
        self._message_id = message_id
        self._selection = _Selection(subscription, subscriptions_max)
        self._coverage = _Coverage()
        self._events: list[FoundEvent] = []
        self._names: set[str] = set()  # a segment that is sealed meanwhile is listed twice
        self._unread = self._size_bytes = 0

    def read(self, segment: _Segment) -> int:
        """Returns the time of the segment's last line; that of one that is gone, or was read, counts as the newest."""
        name = segment.path.name.removesuffix(".open")
        searched = None if name in self._names else _search(segment.path, self._message_id.encode(), self._selection)
        if searched is None:
            return sys.maxsize
        self._names.add(name)
        self._size_bytes += searched.size_bytes
        self._coverage.add(segment, searched.last_line)
        for line in searched.lines:
            self._add(segment, line)
        return _time_of(searched.last_line)

    def _add(self, segment: _Segment, line: bytes) -> None:
        read = _read(line)
        if read is None:
            self._unread += 1
            return
        origin, event = read
        if isinstance(event, NotificationEvent) and event.message_id == self._message_id:
            self._events.append(FoundEvent(segment.process, origin.boot, origin.sequence, event))
            if isinstance(event, PublishAccepted) and not event.replayed:  # a bulk replay accepts it once more
                self.accepted_ms = event.at_ms

    def result(self, *, complete: bool) -> SearchResult:
        """`complete`: no earlier segment was left out."""
        self._events.sort(key=lambda one: (one.event.at_ms, one.boot, one.sequence))
        return SearchResult(
            events=tuple(self._events),
            gaps=tuple(self._coverage.gaps(complete=complete)),
            unread=self._unread,
            left_out=self._selection.left_out,
            segments=len(self._names),
            searched_bytes=self._size_bytes,
        )


def _segments(directories: Sequence[Path], since_ms: int) -> list[_Segment]:
    """Sorted by boot and sequence. A folder is named by the hour in which its segments were opened; they may be written
    into the next hour, so the hour before `since_ms` is searched too."""
    first_folder = folder_at(max(since_ms - HOUR_MS, 0))
    found: dict[str, _Segment] = {}  # by name: a segment that is sealed meanwhile is listed twice
    for path in chain.from_iterable([directory.glob("*/*/*") for directory in directories]):
        segment = _segment(path)
        if segment is not None and f"{path.parent.parent.name}/{path.parent.name}" >= first_folder:
            found[path.name.removesuffix(".open")] = segment
    return sorted(found.values(), key=lambda segment: (segment.boot, segment.first_sequence))


def _segment(path: Path) -> _Segment | None:
    """None for a file with another name."""
    name = _NAME.fullmatch(path.name)
    return None if name is None else _Segment(path, name["process"], name["boot"], int(name["first"]))


def _search(path: Path, needle: bytes, selection: _Selection) -> _SegmentMatches | None:
    """The complete lines with the needle that are selected, and the last complete line."""
    file = open_segment(path)
    if file is None:
        return None
    lines: list[bytes] = []
    size_bytes = 0
    last_line = carried = b""
    with file:
        while read := file.read(BLOCK_BYTES):
            size_bytes += len(read)
            block = carried + read if carried else read
            end = block.rfind(b"\n") + 1
            carried = block[end:]
            if end:
                last_line = block[block.rfind(b"\n", 0, end - 1) + 1 : end]
                lines += filter(selection.keeps, _lines_with(needle, block, end))
    return _SegmentMatches(lines, size_bytes, last_line)


def _lines_with(needle: bytes, block: bytes, end: int) -> Iterator[bytes]:
    at = block.find(needle, 0, end) if needle else -1  # an empty one is at each place, and never ends
    while at >= 0:
        line_end = block.find(b"\n", at)
        yield block[block.rfind(b"\n", 0, at) + 1 : line_end]
        at = block.find(needle, line_end, end)


def _time_of(line: bytes) -> int:
    """The time of a line; a broken one counts as the newest."""
    try:
        return _timed_decoder.decode(line).at_ms
    except UNREADABLE:
        return sys.maxsize


def _read(line: bytes) -> tuple[Origin, Event] | None:
    """Return None for a line that this version cannot read."""
    try:
        origin = _origin_decoder.decode(line)
        event: Event = _event_decoder.decode(line)
    except UNREADABLE:
        return None
    return (origin, event) if origin.version <= SCHEMA_VERSION else None


class _Span(NamedTuple):
    """The sequence numbers in one segment."""

    first_sequence: int
    last_sequence: int
    missing: int  # of those between
    torn: bool


class _Coverage:
    """The sequence numbers of each boot that are present."""

    def __init__(self) -> None:
        self._boots: dict[tuple[str, str], list[_Span]] = {}

    def add(self, segment: _Segment, last_line: bytes) -> None:
        span = _span(segment.first_sequence, last_line)
        if span is not None:
            self._boots.setdefault((segment.process, segment.boot), []).append(span)

    def gaps(self, *, complete: bool) -> Iterator[EventGap]:
        """`complete`: every segment was searched, so numbers before a boot's first segment are missing."""
        for (process, boot), spans in self._boots.items():
            spans.sort()
            expected = 1 if complete else spans[0].first_sequence
            removed = complete
            for span in spans:
                if span.first_sequence > expected:
                    yield _gap(process, boot, expected, span.first_sequence - 1, removed=removed)
                if span.missing:
                    yield _gap(process, boot, span.first_sequence, span.last_sequence)
                expected, removed = span.last_sequence + 1, False
                if span.torn:
                    yield _gap(process, boot, expected, None)


def _gap(process: str, boot: str, first: int, last: int | None, *, removed: bool = False) -> EventGap:
    return EventGap(process=process, boot=boot, first_sequence=first, last_sequence=last, removed=removed)


def _span(first_sequence: int, last_line: bytes) -> _Span | None:
    """Read it from a segment's last line, which is an event while the segment is open."""
    try:
        origin = _origin_decoder.decode(last_line)
        if origin.sequence:
            return _Span(first_sequence, origin.sequence, 0, torn=False)
        sealed = _sealed_decoder.decode(last_line)
    except UNREADABLE:
        return None  # without events, or broken: the gap shows in the next segment's numbers
    there = sealed.last_sequence - sealed.first_sequence + 1
    return _Span(first_sequence, sealed.last_sequence, max(there - sealed.events, 0), torn=sealed.torn_bytes > 0)
