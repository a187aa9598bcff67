"""A table of batches on any file system. Its changes are atomic for readers.

out/events/batch=000000000007-1f0c22d1/date=2026-11-21/event=publish.accepted/….parquet
out/events/_manifests/000000000009.json    names the batches of the table; the highest number is valid

A change writes new files first and then one manifest, atomically. It changes no file that a manifest names: replaced
and expired parts stay for readers that began earlier, and are deleted after `GRACE_MS`. The next writer deletes files
of a killed one, which no manifest names. No file contains an absolute path, so the table may be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

import msgspec

from cns_common.data_directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE
from cns_common.errors import UNREADABLE, StartError
from cns_common.ids import hex_id
from cns_pipeline.location import Location
from cns_pipeline.stored_file import FileStore
from cns_pipeline.tables.manifest import Batch, Part, PlacedPart, TableManifest

C = TypeVar("C")

GRACE_MS = 3_600_000
"""The time for which files of replaced parts stay. A slower reader fails; it never sees incomplete rows."""
STRAY_MS = 24 * 3_600_000
"""On a file system without a writer's lock, a directory that no manifest names may be of a running writer, but not
after this time."""
MANIFESTS_KEPT = 10
"""The number of kept manifests: a reader lists them, and reads the last one within this many changes."""
READS_MAX = 5
_MANIFESTS = "_manifests"
_PREFIX = "batch="
_DIGITS = 12
_WRITER_CHARS = 8
_JSON = ".json"
_EARLIER = ("_spark_metadata", "_contents.json")
"""Names in tables of version 0.1 or in their batches."""


class BatchTable(Generic[C]):
    """A table with manifest contents of type `C`. A part is a first-level directory of a batch."""

    def __init__(self, storage: FileStore, directory: Location, contents: type[C]) -> None:
        self.storage = storage
        self.directory = directory
        self._manifests = directory / _MANIFESTS
        self._decoder = msgspec.json.Decoder(TableManifest[contents])  # type: ignore[valid-type]  # the parameter's value

    def exists(self) -> bool:
        return bool(self.storage.names(self._manifests))

    def check_version(self) -> None:
        """Raise a StartError for a table of an earlier version."""
        names = [] if self.exists() else self.storage.names(self.directory)
        first = next((name for name in names if name.startswith(_PREFIX)), None)
        inside = self.storage.names(self.directory / first) if first else []
        if not set(_EARLIER).isdisjoint([*names, *inside]):
            reason = f"{self.directory} was made by an earlier version: move it away, and ingest again"
            raise StartError(reason, EXIT_DATA_UNUSABLE)

    def read(self) -> TableManifest[C]:
        """The newest manifest; that of a missing table is empty."""
        for _ in range(READS_MAX):
            names = [name for name in self.storage.names(self._manifests) if _number(name) is not None]
            if not names:
                return TableManifest()
            try:
                return self._decode(self._manifests / names[-1])
            except FileNotFoundError:  # a writer has since made MANIFESTS_KEPT changes
                continue
        raise StartError(f"{self.directory} changes faster than it can be read", EXIT_DATA_IN_USE)

    def _decode(self, file: Location) -> TableManifest[C]:
        try:
            manifest: TableManifest[C] = self._decoder.decode(self.storage.read(file))
        except UNREADABLE as error:
            reason = f"{file} is no manifest ({error}): move the table away, and ingest again"
            raise StartError(reason, EXIT_DATA_UNUSABLE) from error
        return manifest

    def place(self, part: PlacedPart) -> Location:
        return self.directory / part.batch / part.part.name

    def directories(self, manifest: TableManifest[C], wanted: Callable[[Part], bool] = lambda _: True) -> list[str]:
        """The directories of the wanted parts, for Spark or another reader of Parquet."""
        return [str(self.place(placed)) for placed in manifest.parts() if wanted(placed.part)]


class TableWriter(Generic[C]):
    """The single writer of a table. `has_lock`: a lock excludes others; without it the first of two changes wins."""

    def __init__(self, table: BatchTable[C], now_ms: Callable[[], int], *, has_lock: bool) -> None:
        self.table = table
        self._storage = table.storage
        self._now_ms = now_ms
        self._stray_ms = 0 if has_lock else STRAY_MS
        self.manifest = table.read()
        self.clean()

    def new_directory(self) -> Location:
        """Return a new directory for the files of a batch."""
        number = f"{self.manifest.number + 1:0{_DIGITS}d}"
        return self.table.directory / f"{_PREFIX}{number}-{hex_id()[:_WRITER_CHARS]}"

    def add(self, directory: Location, contents: C) -> None:
        """Add the written files to the table, all or none."""
        self._commit(self.manifest.with_batch(self._batch(directory, contents, 0)))

    def replace(self, gone: Collection[PlacedPart], directory: Location, contents: C) -> None:
        """Replace parts by the written files, which have the same rows."""
        generation = 1 + max([placed.part.generation for placed in gone])
        batch = self._batch(directory, contents, generation)
        self._commit(self.manifest.replaced(gone, batch, self._now_ms()))

    def retire(self, gone: Collection[PlacedPart]) -> None:
        """Remove parts from the table."""
        if gone:
            left = self.manifest.without(gone, self._now_ms())
            removed = max([left.removed, *[placed.part.name for placed in gone]])
            self._commit(msgspec.structs.replace(left, removed=removed))

    def discard(self, directory: Location) -> None:
        """Delete written files that are not to be added."""
        self._storage.delete(directory)

    def clean(self) -> None:
        """Delete the files of parts that no reader reads any more, and those of killed writers."""
        before_ms = self._now_ms() - GRACE_MS
        old = [retired for retired in self.manifest.retired if retired.at_ms <= before_ms]
        for retired in old:
            self._storage.delete(self.table.directory / retired.batch / retired.part)
        if old:
            self._commit(self.manifest.forgetting(old))
        self._remove_strays()

    def _remove_strays(self) -> None:
        known = self.manifest.names()
        for name in self._storage.names(self.table.directory):
            if name.startswith(_PREFIX) and name not in known and self._is_stray(self.table.directory / name):
                self._storage.delete(self.table.directory / name)
        for name in self._storage.names(self.table.directory / _MANIFESTS):
            number = _number(name)
            if number is None or number <= self.manifest.number - MANIFESTS_KEPT:
                self._storage.delete(self.table.directory / _MANIFESTS / name)

    def _is_stray(self, directory: Location) -> bool:
        return self._stray_ms == 0 or self._storage.modified_ms(directory) < self._now_ms() - self._stray_ms

    def _batch(self, directory: Location, contents: C, generation: int) -> Batch[C]:
        self._storage.sync(directory)
        sizes: dict[str, list[int]] = {}
        for file in self._storage.files(directory):
            sizes.setdefault(file.path.partition("/")[0], []).append(file.size_bytes)
        parts = [
            Part(name=name, files=len(found), size_bytes=sum(found), generation=generation)
            for name, found in sorted(sizes.items())
        ]
        return Batch(name=directory.name, parts=tuple(parts), contents=contents)

    def _commit(self, manifest: TableManifest[C]) -> None:
        file = self.table.directory / _MANIFESTS / f"{manifest.number:0{_DIGITS}d}{_JSON}"
        try:
            self._storage.create(file, msgspec.json.encode(manifest))
        except FileExistsError:
            reason = f"another process changed {self.table.directory} at the same time: run the command again"
            raise StartError(reason, EXIT_DATA_IN_USE) from None
        self.manifest = manifest
        self._storage.delete(
            self.table.directory / _MANIFESTS / f"{manifest.number - MANIFESTS_KEPT:0{_DIGITS}d}{_JSON}"
        )


def _number(name: str) -> int | None:
    digits = name.removesuffix(_JSON)
    return int(digits) if name.endswith(_JSON) and digits.isdecimal() else None
