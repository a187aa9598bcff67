"""The state of a run of `cns migrate`: the marks of both stores, and how far it has come.

The marks change by conditional writes that name the run, in this order: the source is `leaving`, the target `arriving`;
then all is copied and compared; the source is `moved`, the target has no mark any more. So at each moment at most one
store serves, and a run that another one has overtaken cannot end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from cns_backend.backups.backup import write_durably
from cns_common.data_directory import EXIT_DATA_UNUSABLE, sync_directory
from cns_common.errors import StartError
from cns_common.ids import uuid_text
from cns_common.move_mark import MOVE_FILE, MoveMark, read_mark, refusal

PROGRESS_FILE = "move-progress.jsonl"
"""In the data directory of either side: what is done, one line each."""


class MoveMarks(Protocol):
    """The mark of a store. A caller that is no `cns migrate` reads it only."""

    async def read(self) -> MoveMark | None: ...

    async def swap(self, before: MoveMark | None, after: MoveMark | None) -> bool:
        """Replace the mark; False, without a change, if it is not `before`."""
        ...


class FileMoveMarks(MoveMarks):
    """The caller holds the lock `migrate.lock` of the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def read(self) -> MoveMark | None:
        return read_mark(self._directory)

    async def swap(self, before: MoveMark | None, after: MoveMark | None) -> bool:
        if await self.read() != before:
            return False
        path = self._directory / MOVE_FILE
        if after is None:
            path.unlink()
        else:
            scratch = path.with_suffix(".new")
            write_durably(scratch, msgspec.json.encode(after))
            scratch.rename(path)
        sync_directory(self._directory)
        return True


class Store(NamedTuple):
    """One of the two stores of a move, opened or not."""

    where: str
    marks: MoveMarks


class Move:
    """A run between two stores. Raises StartError when a mark is not as this run left it."""

    def __init__(
        self, source: Store, target: Store, run: str, leaving: MoveMark | None = None, *, arrived: bool = False
    ) -> None:
        self.source = source
        self.target = target
        self.run = run
        self.resumed = leaving is not None
        self.copied = leaving is not None and leaving.state == "moved"
        """Whether the source is closed already: only the target's mark is left to remove."""
        self.arrived = arrived
        """Whether the target has the run's mark: else it has nothing of an earlier part of the run."""

    async def begin(self, at_ms: int) -> None:
        """Mark the source."""
        await self._mark(self.source, MoveMark(run=self.run, state="leaving", other=self.target.where, at_ms=at_ms))

    async def arrive(self, at_ms: int) -> None:
        """Mark the target."""
        await self._mark(self.target, MoveMark(run=self.run, state="arriving", other=self.source.where, at_ms=at_ms))

    async def close_source(self) -> None:
        mark = await self._own(self.source)
        await self.swap(self.source, replace(mark, state="leaving"), replace(mark, state="moved"))

    async def open_target(self) -> None:
        await self.swap(self.target, await self._own(self.target), None)

    async def cancel(self) -> None:
        """Remove the marks of a run that has written nothing."""
        for store in (self.target, self.source):
            mark = await store.marks.read()
            if mark is not None and mark.run == self.run:
                await self.swap(store, mark, None)

    async def _mark(self, store: Store, mark: MoveMark) -> None:
        there = await store.marks.read()
        if there is None:
            await self.swap(store, None, mark)
        elif there.run != self.run:
            raise _refused(there, store.where)

    async def _own(self, store: Store) -> MoveMark:
        mark = await store.marks.read()
        if mark is None or mark.run != self.run:
            raise StartError(
                f"{store.where} is not of this run any more: another `cns migrate` changed its mark", EXIT_DATA_UNUSABLE
            )
        return mark

    async def swap(self, store: Store, before: MoveMark | None, after: MoveMark | None) -> None:
        if not await store.marks.swap(before, after):
            raise StartError(f"another `cns migrate` changes the mark of {store.where}", EXIT_DATA_UNUSABLE)


async def find_move(source: Store, target: Store) -> Move:
    """The run that goes on or begins between two stores. Raises StartError where their marks forbid it."""
    leaving, arriving = await source.marks.read(), await target.marks.read()
    run = uuid_text() if leaving is None else leaving.run
    if leaving is not None and (leaving.state in ("arriving", "left") or leaving.other != target.where):
        raise _refused(leaving, source.where)
    if leaving is not None and leaving.state == "moved" and arriving is None:
        raise _refused(leaving, source.where)
    if arriving is not None and (arriving.run != run or arriving.state != "arriving"):
        raise _refused(arriving, target.where)
    return Move(source, target, run, leaving, arrived=arriving is not None)


async def take_back(source: Store, target: Store, ask: Callable[[str], None], *, has_content: bool) -> None:
    """Open a source again that was moved, or is being moved. A target with content is marked, so that it serves nobody.
    `ask` gets the target's name before. Raises StartError if the source was not moved to that target."""
    mark, other = await source.marks.read(), await target.marks.read()
    if mark is None:
        raise StartError(f"{source.where} is open: nothing was moved from it", EXIT_DATA_UNUSABLE)
    if mark.state in ("arriving", "left") or mark.other != target.where:
        raise _refused(mark, source.where)
    if other is not None and other.run != mark.run:
        raise _refused(other, target.where)
    ask(target.where if has_content else "")
    move = Move(source, target, mark.run)
    if has_content:
        await move.swap(target, other, replace(mark, state="left", other=source.where))
    elif other is not None:
        await move.swap(target, other, None)
    await move.swap(source, mark, None)


def _refused(mark: MoveMark, where: str) -> StartError:
    return refusal(mark, where, EXIT_DATA_UNUSABLE)


class _Done(msgspec.Struct, frozen=True):
    run: str
    step: str


_decode = msgspec.json.Decoder(_Done).decode


class Progress:
    """The steps that a run has done. Lines of other runs, and one that a crash cut off, do not count."""

    def __init__(self, directory: Path, run: str, *, arrived: bool) -> None:
        """No step is done unless the run has `arrived` in its target."""
        self._path = directory / PROGRESS_FILE
        self._run = run
        self._done = set(self._read()) if arrived else set()

    def _read(self) -> Iterator[str]:
        for line in self._path.read_bytes().splitlines() if self._path.exists() else ():
            with suppress(msgspec.DecodeError):
                done = _decode(line)
                if done.run == self._run:
                    yield done.step

    def has(self, step: str) -> bool:
        return step in self._done

    def add(self, step: str) -> None:
        """Durable when it returns."""
        with self._path.open("ab") as file:
            file.write(b"\n" + msgspec.json.encode(_Done(self._run, step)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._done.add(step)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
