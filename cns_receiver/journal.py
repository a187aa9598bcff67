"""The journal: a line per delivery, written before its answer, so that a killed receiver loses none.

    nanoseconds <TAB> endpoint <TAB> message id <TAB> subscription <TAB> status of the answer, 0 for none <LF>

A cleared endpoint is a line whose status is `cleared`. Lines are written to the kernel, not synced to the disk. The
status comes last and has three digits, so that no truncated line looks complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CLEARED = b"cleared"
_LINE = re.compile(rb"(\d{1,19})\t([\w.~-]+)\t([^\t\n]*)\t([^\t\n]*)\t(0|\d{3}|cleared)\n")


class JournalEntry(NamedTuple):
    """A line of the journal; `status` is None if the endpoint was cleared."""

    arrived_ns: int
    endpoint: str
    message_id: bytes
    subscription: bytes
    status: int | None


class Journal:
    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b", buffering=0)
        self._end_truncated_line()

    def delivered(self, arrived_ns: int, endpoint: str, message_id: bytes, subscription: bytes, status: int) -> bool:
        return self._append(b"%d\t%b\t%b\t%b\t%d\n" % (arrived_ns, endpoint.encode(), message_id, subscription, status))

    def cleared(self, at_ns: int, endpoint: str) -> bool:
        return self._append(b"%d\t%b\t\t\t%b\n" % (at_ns, endpoint.encode(), _CLEARED))

    def close(self) -> None:
        self._file.close()

    def _append(self, line: bytes) -> bool:
        """Return whether the whole line was written; a line truncated by a full disk is removed."""
        try:
            written = self._file.write(line) or 0
            if written != len(line):
                self._file.truncate(self._file.tell() - written)
        except OSError:
            return False
        return written == len(line)

    def _end_truncated_line(self) -> None:
        if self._file.seek(0, os.SEEK_END):
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """Read the entries of earlier runs; invalid lines are skipped."""
    if not path.is_file():
        return
    with path.open("rb") as lines:
        for line in lines:
            if found := _LINE.fullmatch(line):
                arrived, endpoint, message_id, subscription, status = found.groups()
                number = None if status == _CLEARED else int(status)
                yield JournalEntry(int(arrived), endpoint.decode("ascii"), message_id, subscription, number)
