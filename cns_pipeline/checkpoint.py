"""Spark's checkpoint of ingest: the segments that were read. It only saves work, and may be deleted.

`sources/0` is the log of Spark's file source: `N.compact` has all entries up to batch N, `N` those of batch N, as
lines of JSON after the line `v1`. `offsets` has a file for each started batch, `commits` for each finished one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cns_common.errors import UNREADABLE
from cns_pipeline.location import Location, from_encoded
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.stored_file import FileStore

ENTRIES_FREE = 10_000
"""The checkpoint is trimmed once it has more entries of removed segments than this."""
_VERSION = b"v1"
_COMPACT = ".compact"


class _Entry(msgspec.Struct):
    path: str


class _Offset(msgspec.Struct):
    log_offset: int = msgspec.field(name="logOffset")


_entry_decoder = msgspec.json.Decoder(_Entry)
_offset_decoder = msgspec.json.Decoder(_Offset)


class Checkpoint:
    """The checkpoint in `paths`. What this module cannot parse of it counts as absent."""

    def __init__(self, storage: FileStore, paths: PipelinePaths) -> None:
        self._storage = storage
        self._paths = paths
        self._log = paths.checkpoint / "sources" / "0"

    def reset_unless_of(self, events: Location) -> None:
        """Delete the checkpoint if it belongs to another directory of events: Spark stores absolute paths in it."""
        if not self.is_of(events):
            self._storage.delete(self._paths.checkpoint)
            self._storage.write(self._paths.source, str(events).encode())

    def is_of(self, events: Location) -> bool:
        try:
            return self._storage.read(self._paths.source) == str(events).encode()
        except FileNotFoundError:
            return False

    def segments(self) -> set[str]:
        """The paths of the segments of all started batches."""
        return {path for name in self._log_names() for path in self._paths_in(name)}

    def is_ended(self) -> bool:
        """Whether all started batches are finished: then the table has all of `segments`."""
        begun, ended = self._last("offsets"), self._last("commits")
        names = self._log_names()
        if begun is None or begun != ended or not names:
            return False
        lines = self._storage.read(self._paths.checkpoint / "offsets" / str(begun)).splitlines()
        try:
            return _offset_decoder.decode(lines[-1]).log_offset == int(names[-1].removesuffix(_COMPACT))
        except (IndexError, *UNREADABLE):
            return False

    def trim(self, present: Iterable[str]) -> None:
        """Remove segments that no longer exist from the log, which Spark never shortens. No query may be running."""
        name = next((name for name in self._log_names() if name.endswith(_COMPACT)), None)
        if name is None:
            return
        there = set(present)
        first, *lines = self._storage.read(self._log / name).splitlines()
        left = [line for line in lines if _path_of(line) in there]
        if first == _VERSION and len(lines) - len(left) > max(ENTRIES_FREE, len(left)):
            self._storage.write(self._log / name, b"\n".join([first, *left]))

    def _log_names(self) -> list[str]:
        """The newest compact file, and the files after it."""
        found = {name: _number(name.removesuffix(_COMPACT)) for name in self._storage.names(self._log)}
        numbers = {name: number for name, number in found.items() if number is not None}
        compact = max([number for name, number in numbers.items() if name.endswith(_COMPACT)], default=-1)
        last = {number: name for name, number in sorted(numbers.items()) if number >= compact}
        return [last[number] for number in sorted(last)]

    def _paths_in(self, name: str) -> Iterable[str]:
        first, *lines = self._storage.read(self._log / name).splitlines() or [b""]
        return filter(None, map(_path_of, lines)) if first == _VERSION else ()

    def _last(self, directory: str) -> int | None:
        names = self._storage.names(self._paths.checkpoint / directory)
        return max([number for name in names if (number := _number(name)) is not None], default=None)


def _number(name: str) -> int | None:
    return int(name) if name.isdecimal() else None


def _path_of(line: bytes) -> str | None:
    try:
        return from_encoded(_entry_decoder.decode(line).path)
    except UNREADABLE:
        return None
