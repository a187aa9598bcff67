"""Reads lines of events from the newest back at a bounded cost: folders by hour, segments from their end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cns_common.events.files import OPEN, SEALED, has_audit_events, open_segment

BLOCK_BYTES = 1024 * 1024
_DAY, _HOUR = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d\d")


class SegmentFile(NamedTuple):
    path: Path
    size_bytes: int
    modified_s: float


class Reach:
    """How much may still be read."""

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


def folders_backwards(directories: Sequence[Path]) -> Iterator[list[SegmentFile]]:
    """The segments of each hour in all directories, without those of audit events; the newest hour first, and of its
    segments the one that was written last."""
    for days in _newest_first(directories, _DAY):
        for folders in _newest_first(days, _HOUR):
            found = [_segment(path) for folder in folders for path in folder.glob(f"*{SEALED}*")]
            yield sorted([one for one in found if one is not None], key=lambda one: (-one.modified_s, one.path.name))


def _newest_first(directories: Sequence[Path], name: re.Pattern[str]) -> Iterator[list[Path]]:
    """The folders in the directories whose names match, those of one name together."""
    found: dict[str, list[Path]] = {}
    for directory in dict.fromkeys(directories):
        for path in _matching(directory, name):
            found.setdefault(path.name, []).append(path)
    for key in sorted(found, reverse=True):
        yield found[key]


def _matching(directory: Path, name: re.Pattern[str]) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if name.fullmatch(path.name)]
    except FileNotFoundError:  # removed for its age, or nothing was written yet
        return []


def _segment(path: Path) -> SegmentFile | None:
    if not path.name.endswith((SEALED, OPEN)) or has_audit_events(path):
        return None
    try:
        status = path.stat()
    except FileNotFoundError:  # sealed or removed since
        return SegmentFile(path, 0, 0.0)
    return SegmentFile(path, status.st_size, status.st_mtime)


def lines_backwards(path: Path, needle: bytes, reach: Reach) -> Iterator[bytes]:
    """The complete lines of a segment with the needle, the last one first; none of a segment that was removed. One that
    may not be read counts as cut."""
    try:
        file = open_segment(path)
    except PermissionError:  # a command that another user ran wrote it
        reach.cut = True
        return
    if file is None:
        return
    with file:
        yield from _lines(file, needle, reach)


def _lines(file: BinaryIO, needle: bytes, reach: Reach) -> Iterator[bytes]:
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
