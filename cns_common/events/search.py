"""Finds what was told of one message: the segments are searched as bytes, and only lines that name it are read.

What is not there is said too. A process numbers its events from 1, so a number in none of its segments is an event that
was never written, or went with a segment that was too old to keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from cns_common.events.files import OPEN, SEALED, folder_at
from cns_common.events.schema import SCHEMA_VERSION, Event, Origin, SegmentSealed

BLOCK_BYTES = 4 * 1024 * 1024
HOUR_MS = 3_600_000
_NAME = re.compile(rf"((?P<process>.+)-(?P<boot>[^-]+)-(?P<first>\d+)){re.escape(SEALED)}(?:\.open)?")

_event_decoder = msgspec.json.Decoder(Event)
_origin_decoder = msgspec.json.Decoder(Origin)
_sealed_decoder = msgspec.json.Decoder(SegmentSealed)


class Told(msgspec.Struct, frozen=True):
    """An event, and who told it."""

    process: str
    boot: str
    sequence: int
    event: Event


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a process that no segment here has, all or some of them. Without a `last_sequence` a crash has cut off
    a line, and nobody knows how many would have followed."""

    process: str
    boot: str
    first_sequence: int
    last_sequence: int | None
    removed: bool = False
    """With the segments of before: it was the retention that took them."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    told: tuple[Told, ...]  # in the order of time
    gaps: tuple[Gap, ...]
    unread: int  # lines that name the message and are no events this version knows
    segments: int
    searched_bytes: int


class _Segment(NamedTuple):
    path: Path
    process: str
    boot: str
    first_sequence: int


class _Searched(NamedTuple):
    lines: list[bytes]
    size_bytes: int
    last_line: bytes


def search_segments(directories: Sequence[Path], message_id: str, since_ms: int = 0) -> Found:
    """All that was told of the message in segments that were written to after `since_ms`, a time of the service."""
    needle = message_id.encode()
    told: list[Told] = []
    unread = size_bytes = 0
    coverage = _Coverage()
    segments = _segments(directories, since_ms)
    for segment in segments:
        searched = _search(segment.path, needle)
        if searched is None:
            continue  # removed meanwhile
        size_bytes += searched.size_bytes
        coverage.add(segment, searched.last_line)
        for line in searched.lines:
            one = _read(segment.process, line)
            if one is None:
                unread += 1
            elif one.event.message_id == message_id:
                told.append(one)
    told.sort(key=lambda one: (one.event.at_ms, one.boot, one.sequence))
    return Found(
        told=tuple(told),
        gaps=tuple(coverage.gaps(complete=since_ms == 0)),
        unread=unread,
        segments=len(segments),
        searched_bytes=size_bytes,
    )


def _segments(directories: Sequence[Path], since_ms: int) -> list[_Segment]:
    """In the order of the boots' numbers. A folder is named by the hour in which its segments were opened, and they are
    written to a little longer: the hour before is looked at, too."""
    first_folder = folder_at(max(since_ms - HOUR_MS, 0))
    found: dict[str, _Segment] = {}  # by name: one that is sealed meanwhile is seen twice
    for path in chain.from_iterable([directory.glob("*/*/*") for directory in directories]):
        name = _NAME.fullmatch(path.name)
        if name is not None and f"{path.parent.parent.name}/{path.parent.name}" >= first_folder:
            found[name[1]] = _Segment(path, name["process"], name["boot"], int(name["first"]))
    return sorted(found.values(), key=lambda segment: (segment.boot, segment.first_sequence))


def _search(path: Path, needle: bytes) -> _Searched | None:
    """The whole lines that have the needle in them, and the last of all whole lines."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        try:
            file = path.with_name(path.name.removesuffix(OPEN) + SEALED).open("rb")  # sealed meanwhile
        except FileNotFoundError:
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
                lines += _lines_with(needle, block, end)
    return _Searched(lines, size_bytes, last_line)


def _lines_with(needle: bytes, block: bytes, end: int) -> Iterator[bytes]:
    at = block.find(needle, 0, end)
    while at >= 0:
        line_end = block.find(b"\n", at)
        yield block[block.rfind(b"\n", 0, at) + 1 : line_end]
        at = block.find(needle, line_end, end)


def _read(process: str, line: bytes) -> Told | None:
    try:
        origin = _origin_decoder.decode(line)
        event = _event_decoder.decode(line)
    except msgspec.DecodeError:
        return None
    return Told(process, origin.boot, origin.sequence, event) if origin.version <= SCHEMA_VERSION else None


class _Span(NamedTuple):
    """What one segment has of its boot's numbers."""

    first_sequence: int
    last_sequence: int
    missing: int  # of those between
    torn: bool


class _Coverage:
    """Which numbers of each boot are here."""

    def __init__(self) -> None:
        self._boots: dict[tuple[str, str], list[_Span]] = {}

    def add(self, segment: _Segment, last_line: bytes) -> None:
        span = _span(segment.first_sequence, last_line)
        if span is not None:
            self._boots.setdefault((segment.process, segment.boot), []).append(span)

    def gaps(self, *, complete: bool) -> Iterator[Gap]:
        """`complete`: no segment was passed over, so what comes before a boot's first is not here."""
        for (process, boot), spans in self._boots.items():
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


def _gap(process: str, boot: str, first: int, last: int | None, *, removed: bool = False) -> Gap:
    return Gap(process=process, boot=boot, first_sequence=first, last_sequence=last, removed=removed)


def _span(first_sequence: int, last_line: bytes) -> _Span | None:
    """From a segment's last line: an event, where it is being written to."""
    try:
        origin = _origin_decoder.decode(last_line)
        if origin.sequence:
            return _Span(first_sequence, origin.sequence, 0, torn=False)
        sealed = _sealed_decoder.decode(last_line)
    except msgspec.DecodeError:
        return None  # nothing but its first line, or broken: the next one's numbers tell
    there = sealed.last_sequence - sealed.first_sequence + 1
    return _Span(first_sequence, sealed.last_sequence, max(there - sealed.events, 0), torn=sealed.torn_bytes > 0)
