"""Finds commits in an SQLite write-ahead log behind the frame where SQLite stopped reading it.

SQLite reads the frames before the first whose salts or checksum do not fit, and ignores the rest without a word.
Ignored frames that carry this log's salts and end a transaction are lost commits. The format:
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
"""The offset in the wal-index (the -shm file) of the last valid frame's number, a native 32-bit integer."""
_MAGIC = (0x377F0682, 0x377F0683)
_PAGE_BYTES = frozenset(2**power for power in range(9, 17))


class LostCommits(NamedTuple):
    """`commits` are missing behind frame number `frames`. One of them may have been under way when its process died:
    no caller was told that it succeeded. With `is_header_damaged` SQLite read nothing of the log."""

    frames: int
    commits: int
    is_header_damaged: bool


def open_index(store: Path) -> int | None:
    """A file descriptor of the wal-index, for `find_lost_commits`; None without an index.

    Close it after the connections of this process, never before: closing any descriptor of the index drops the locks
    that SQLite holds on it, as POSIX has it. The next process that opens the store would take itself for the only one
    and truncate the index, which this process has mapped: SIGBUS.
    """
    try:
        return os.open(store.with_name(f"{store.name}-shm"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def find_lost_commits(store: Path, index_fd: int | None) -> LostCommits:
    """Call this for a store that is open and has been read, but not written since: then SQLite has read the log.

    Reads the headers of the ignored frames, once.
    """
    frames = 0 if index_fd is None else _valid_frames(index_fd)
    try:
        with store.with_name(f"{store.name}-wal").open("rb") as log:
            header = log.read(HEADER_BYTES)
            if len(header) < HEADER_BYTES:
                return LostCommits(frames, 0, is_header_damaged=False)
            is_damaged = not _is_sound(header)
            page_bytes = _page_bytes(header)
            frame_bytes = FRAME_HEADER_BYTES + page_bytes
            at, size = HEADER_BYTES + frames * frame_bytes, os.fstat(log.fileno()).st_size
            log.seek(at)
            first = log.read(FRAME_HEADER_BYTES)
            salts = first[8:16] if is_damaged else header[16:24]
            commits = 0
            while at + frame_bytes <= size:  # a frame that is cut off belongs to a commit that did not end
                page, pages_after_commit = struct.unpack_from(">II", first)
                commits += bool(page and pages_after_commit and first[8:16] == salts)
                at += frame_bytes
                log.seek(at)
                first = log.read(FRAME_HEADER_BYTES)
    except FileNotFoundError:
        return LostCommits(0, 0, is_header_damaged=False)
    return LostCommits(frames, commits, is_damaged)


def _valid_frames(index_fd: int) -> int:
    number = os.pread(index_fd, 4, MAX_FRAME_OFFSET)
    return int(struct.unpack("=I", number)[0]) if len(number) == 4 else 0


def _page_bytes(header: bytes) -> int:
    (size,) = struct.unpack_from(">I", header, 8)
    return size if size in _PAGE_BYTES else 4096


def _is_sound(header: bytes) -> bool:
    """Whether the log's header fits its checksum."""
    (magic,) = struct.unpack_from(">I", header)
    if magic not in _MAGIC:
        return False
    words = struct.unpack(">6I" if magic & 1 else "<6I", header[:24])
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack_from(">2I", header, 24)
