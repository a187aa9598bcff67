"""The manifest of a table: one small file with its batches. No I/O here."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

C = TypeVar("C")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a batch in one directory, such as those of one date."""

    name: str  # the directory below the batch: date=2026-11-21
    files: int
    size_bytes: int
    generation: int = 0  # how many times its rows were merged


class Batch(msgspec.Struct, Generic[C], frozen=True, kw_only=True):
    """Files that were added to the table at once. `contents` describes at least the files that are left."""

    name: str  # its directory below the table: batch=000000000007-1f0c22d1
    parts: tuple[Part, ...]
    contents: C


class RetiredPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that was removed from the table. Its files stay for readers that began earlier."""

    batch: str
    part: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """A part, and the name of its batch."""

    batch: str
    part: Part


class TableManifest(msgspec.Struct, Generic[C], frozen=True, kw_only=True):
    """The whole table, oldest batch first. `number` counts its changes. `removed` is the greatest name of parts that
    were removed without replacement; empty: none."""

    number: int = 0
    batches: tuple[Batch[C], ...] = ()
    retired: tuple[RetiredPart, ...] = ()
    removed: str = ""

    def parts(self) -> Iterator[PlacedPart]:
        for batch in self.batches:
            for part in batch.parts:
                yield PlacedPart(batch.name, part)

    def with_batch(self, batch: Batch[C]) -> TableManifest[C]:
        return msgspec.structs.replace(self, number=self.number + 1, batches=(*self.batches, batch))

    def without(self, gone: Collection[PlacedPart], now_ms: int) -> TableManifest[C]:
        """Retire parts. A batch without parts is no longer named."""
        names = {(placed.batch, placed.part.name) for placed in gone}
        left = [_without(batch, names) for batch in self.batches]
        retired = [RetiredPart(batch=batch, part=part, at_ms=now_ms) for batch, part in sorted(names)]
        return msgspec.structs.replace(
            self,
            number=self.number + 1,
            batches=tuple([batch for batch in left if batch.parts]),
            retired=(*self.retired, *retired),
        )

    def replaced(self, gone: Collection[PlacedPart], batch: Batch[C], now_ms: int) -> TableManifest[C]:
        """Replace the parts that a batch was made of by the batch."""
        return msgspec.structs.replace(self.without(gone, now_ms).with_batch(batch), number=self.number + 1)

    def forgetting(self, deleted: Collection[RetiredPart]) -> TableManifest[C]:
        left = tuple([retired for retired in self.retired if retired not in deleted])
        return msgspec.structs.replace(self, number=self.number + 1, retired=left)

    def names(self) -> set[str]:
        """The batch directories with files of the table or of retired parts."""
        return {batch.name for batch in self.batches} | {retired.batch for retired in self.retired}


def _without(batch: Batch[C], names: set[tuple[str, str]]) -> Batch[C]:
    left = tuple([part for part in batch.parts if (batch.name, part.name) not in names])
    return msgspec.structs.replace(batch, parts=left)
