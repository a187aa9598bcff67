"""Counts the rows and bytes that a store writes, in its process, with SQLite's preupdate hook.

A row counts in full when it is inserted and at every update: text and blobs by their bytes, a number as eight bytes.
Indexes, pages and the log are not counted here: a process's `write_bytes` includes those.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

import apsw
import msgspec

OUT_VARIABLE = "ROWS_OUT"
ROOT = Path(__file__).parents[2]
NUMBER_BYTES = 8
_TOTALS = struct.Struct("<qq")


class Rows(msgspec.Struct, frozen=True):
    """Totals since the process started."""

    written: int
    written_bytes: int


class Counter:
    """Keeps its totals in a memory-mapped file, so that other processes can read them at any time."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_TOTALS.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _TOTALS.size)
        self._written = self._written_bytes = 0

    def attach(self, connection: apsw.Connection) -> None:
        connection.preupdate_hook(self._count)

    def _count(self, update: apsw.PreUpdate) -> None:
        values = update.new
        if values is not None:  # a delete writes no row
            self._written += 1
            self._written_bytes += size_bytes(values)
            _TOTALS.pack_into(self._shared, 0, self._written, self._written_bytes)


def size_bytes(values: apsw.SQLiteValues) -> int:
    total = 0
    for value in values:
        if isinstance(value, str):
            total += len(value.encode())
        elif isinstance(value, int | float):
            total += NUMBER_BYTES
        elif value is not None:
            total += len(value)
    return total


def rows_in(out: Path) -> Rows:
    """The totals of all processes."""
    totals = [_TOTALS.unpack(path.read_bytes()) for path in out.iterdir()]
    return Rows(sum(written for written, _ in totals), sum(written_bytes for _, written_bytes in totals))


def start_if_asked() -> None:
    if out := os.environ.get(OUT_VARIABLE):
        apsw.connection_hooks.append(Counter(Path(out) / str(os.getpid())).attach)


def environment(out: Path) -> dict[str, str]:
    """Environment variables that make a server and its descendants count."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [str(Path(__file__).parent / "counting"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {OUT_VARIABLE: str(out.absolute()), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
