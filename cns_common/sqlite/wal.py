"""What an SQLite write-ahead log holds behind the frame where SQLite stopped reading it.

SQLite takes over the frames before the first whose salts or checksum do not fit, and says nothing of those behind.
Frames behind it that carry this log's salts and end a transaction are commits that are missing. The format:
https://sqlite.org/walformat.html
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
MAX_FRAME_OFFSET = 16
"""Where the wal-index (the -shm file) has the number of the last valid frame, as a native 32-bit number."""
_MAGIC = (0x377F0682, 0x377F0683)
_PAGE_BYTES = frozenset(2**power for power in range(9, 17))


class CutLog(NamedTuple):
    """`commits` are missing behind frame number `frames`. One of them may be a write under way when its process died,
    which nobody was told had succeeded. `is_header_damaged`: then nothing of the log was taken over."""

    frames: int
    commits: int
    is_header_damaged: bool


def cut_log(store: Path) -> CutLog:
    """Of a store that is open, has been read, and has not been written since: SQLite has read the log by then.

    Reads the headers of the frames behind the cut, once.
    """
    try:
        frames = _valid_frames(store.with_name(f"{store.name}-shm"))
        with store.with_name(f"{store.name}-wal").open("rb") as log:
            header = log.read(HEADER_BYTES)
            if len(header) < HEADER_BYTES:
                return CutLog(frames, 0, is_header_damaged=False)
            is_damaged = not _is_sound(header)
            page_bytes = _page_bytes(header)
            frame_bytes = FRAME_HEADER_BYTES + page_bytes
            at, size = HEADER_BYTES + frames * frame_bytes, os.fstat(log.fileno()).st_size
            log.seek(at)
            first = log.read(FRAME_HEADER_BYTES)
            salts = first[8:16] if is_damaged else header[16:24]
            commits = 0
            while at + frame_bytes <= size:  # a frame that is cut off is of a commit that did not end
                page, pages_after_commit = struct.unpack_from(">II", first)
                commits += bool(page and pages_after_commit and first[8:16] == salts)
                at += frame_bytes
                log.seek(at)
                first = log.read(FRAME_HEADER_BYTES)
    except FileNotFoundError:
        return CutLog(0, 0, is_header_damaged=False)
    return CutLog(frames, commits, is_damaged)


def _valid_frames(index: Path) -> int:
    with index.open("rb") as file:
        file.seek(MAX_FRAME_OFFSET)
        number = file.read(4)
    return int(struct.unpack("=I", number)[0]) if len(number) == 4 else 0


def _page_bytes(header: bytes) -> int:
    (size,) = struct.unpack_from(">I", header, 8)
    return size if size in _PAGE_BYTES else 4096


def _is_sound(header: bytes) -> bool:
    """Whether the log's header is what its checksum says."""
    (magic,) = struct.unpack_from(">I", header)
    if magic not in _MAGIC:
        return False
    words = struct.unpack(">6I" if magic & 1 else "<6I", header[:24])
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack_from(">2I", header, 24)
