"""Finds the newest events about a topic, a subscription or a message, newest first, at a bounded cost.

Folders are read from the newest hour back, and each segment from its end, until there are enough events or `BYTES_MAX`
were read. A segment that was opened in an earlier hour than its last events is met with that hour.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from cns_common.events.files import AUDIT_SUFFIX, OPEN, SEALED
from cns_common.events.schema import (
    SCHEMA_VERSION,
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    NotificationDropped,
    Origin,
)

BYTES_MAX = 32 * 1024 * 1024
BLOCK_BYTES = 1024 * 1024
FOLDERS_MIN = 2
"""Folders that are read at least: a segment of the hour before may have newer events than one of this hour."""
_DAY, _HOUR = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d\d")

DeliveryEvent = DeliveryAttempted | DeliveryDelivered | DeliveryDeadLettered | NotificationDropped
_decode_event = msgspec.json.Decoder(DeliveryEvent).decode
_decode_origin = msgspec.json.Decoder(Origin).decode
_OUTCOMES_WITHOUT = (b'"event":"delivery.dead_lettered"', b'"event":"notification.dropped"')
ALL = (b'"event":"delivery.attempted"', b'"event":"delivery.delivered"', *_OUTCOMES_WITHOUT)
"""Each line of a delivery event has one of these."""
FAILURES = (b'"outcome":"failed"', *_OUTCOMES_WITHOUT)
"""Each line of a failed attempt or of an end without a delivery has one of these."""


class NewestEvents(msgspec.Struct, frozen=True, kw_only=True):
    events: tuple[DeliveryEvent, ...]  # newest first
    complete: bool  # there are no older ones: all that is kept was read
    read_bytes: int
    segments: int


class Reach:
    """The bytes that may still be read."""

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max
        self.used = 0
        self.cut = False

    def take(self, wanted: int) -> int:
        granted = min(wanted, self.left)
        self.left -= granted
        self.used += granted
        self.cut = self.cut or granted < wanted
        return granted


def field(name: str, text: str) -> bytes:
    """A member of an event as its line has it. `text` needs no escapes: an ARN, or an id."""
    return f'"{name}":"{text}"'.encode()


def newest_events(
    directories: Sequence[Path],
    needle: bytes,
    marks: Sequence[bytes],
    wanted: Callable[[DeliveryEvent], bool],
    n: int,
    bytes_max: int = BYTES_MAX,
) -> NewestEvents:
    """Up to `n` of the newest delivery events that are `wanted`, of lines with the needle and one of the marks."""
    reach = Reach(bytes_max)
    newest: list[tuple[int, int, DeliveryEvent]] = []
    segments = found = 0
    complete = True
    for number, folder in enumerate(_folders(directories)):
        if reach.cut or (found >= n and number >= FOLDERS_MIN):
            complete = False
            break
        for path in sorted(folder.glob(f"*{SEALED}*"), key=_age):
            if not path.name.endswith((SEALED, OPEN)) or f"{AUDIT_SUFFIX}-" in path.name:
                continue
            segments += 1
            for event in islice(filter(wanted, _events_backwards(path, needle, marks, reach)), n):
                found += 1
                entry = (event.at_ms, -found, event)
                if len(newest) < n:
                    heapq.heappush(newest, entry)
                else:
                    heapq.heappushpop(newest, entry)
    events = tuple([event for *_, event in sorted(newest, key=lambda one: one[:2], reverse=True)])
    return NewestEvents(
        events=events, complete=complete and not reach.cut and found < n, read_bytes=reach.used, segments=segments
    )


def _folders(directories: Sequence[Path]) -> Iterator[Path]:
    """The folders of hours, newest first."""
    days = {(day.name, day) for directory in directories for day in _matching(directory, _DAY)}
    for _, day in sorted(days, reverse=True):
        yield from sorted(_matching(day, _HOUR), reverse=True)


def _matching(directory: Path, name: re.Pattern[str]) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if name.fullmatch(path.name)]
    except FileNotFoundError:  # removed for its age, or nothing was written yet
        return []


def _age(path: Path) -> tuple[float, str]:
    """Sorts what was written last first."""
    try:
        return (-path.stat().st_mtime, path.name)
    except FileNotFoundError:
        return (0.0, path.name)


def _events_backwards(path: Path, needle: bytes, marks: Sequence[bytes], reach: Reach) -> Iterator[DeliveryEvent]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        try:
            file = path.with_name(path.name.removesuffix(OPEN) + SEALED).open("rb")  # sealed since
        except FileNotFoundError:
            return
    with file:
        for line in _lines_backwards(file, needle, reach):
            if any(mark in line for mark in marks) and (event := _read(line)) is not None:
                yield event


def _lines_backwards(file: BinaryIO, needle: bytes, reach: Reach) -> Iterator[bytes]:
    """The complete lines with the needle, the last one first."""
    end = file.seek(0, 2)
    after = b""  # the beginning of this text is in the block before
    while end > 0 and (size := reach.take(min(BLOCK_BYTES, end))):
        end -= size
        file.seek(end)
        block = file.read(size) + after
        start = 0 if end == 0 else block.find(b"\n") + 1
        after = block[:start] if start else block
        if start or end == 0:
            yield from _matches_backwards(block, needle, start)


def _matches_backwards(block: bytes, needle: bytes, start: int) -> Iterator[bytes]:
    limit = block.rfind(b"\n") + 1  # what follows is not complete
    while (at := block.rfind(needle, start, limit)) >= 0:
        line_start = max(block.rfind(b"\n", start, at) + 1, start)
        yield block[line_start : block.find(b"\n", at)]
        limit = line_start


def _read(line: bytes) -> DeliveryEvent | None:
    """None for a line that this version cannot read."""
    try:
        if _decode_origin(line).version > SCHEMA_VERSION:
            return None
        event: DeliveryEvent = _decode_event(line)
    except msgspec.DecodeError:
        return None
    return event
