"""One SQLite file with group commit: all writes of a loop turn are one transaction, and one fsync answers them all.

Statements run on the event loop's own thread, batched by stage; only the COMMIT, which waits for the disk, runs in a
thread of its own. While it does, new work gathers for the next transaction. (ADR 0001 has the measurements: a thread
that ran every statement lost half the throughput to hand-overs of the interpreter lock.)
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_FULL, EXIT_DATA_UNUSABLE, lock_directory, unusable
from cns_common.errors import CnsError, OutcomeUnknown, StartError, StoreFull, StoreUnavailable
from cns_common.process.kill_points import STORE_CHECKPOINT, STORE_COMMIT, STORE_COMMITTED, kill_point
from cns_common.sqlite.disk_space import DiskSpace, is_full
from cns_common.sqlite.opening import (
    PAGE_BYTES,
    Guard,
    begin_boot,
    check,
    connect,
    create_tables,
    log_cut,
    prepare_file,
)
from cns_common.sqlite.stages import Item, Stage, Work

CHECKPOINT_PAGES = 4096
"""Copy the write-ahead log back once it holds 16 MiB."""
CHECKPOINT_PAGES_FULL = 256
"""The same while the disk is full: the log must not grow."""
HIGH_WATER_MS = 1_000
"""How often the highest time seen is stored, so that a restarted clock is never behind it by more."""

LOCK_FILE = "lock"
STORE_FILE = "store.db"

T = TypeVar("T")


class Database:
    """The only opener of its directory. Use it from one event loop; `close` waits for the commit under way.

    `guard` may refuse the store by a StartError, before anything is written. A store on a full disk, which leaves no
    room for a second connection's index or for the number of this start, opens `alone`: it can be read, but what
    needs room is refused until a new start finds some.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        vfs: str | None = None,
        guard: Guard = lambda _: None,
        space: DiskSpace | None = None,
    ) -> None:
        self._lock_fd = lock_directory(directory, LOCK_FILE)
        self._path = directory / STORE_FILE
        self._guard = guard
        self.space = space or DiskSpace(directory)
        self.alone = False
        self._vfs = vfs
        self._clock = clock
        self._stages: list[Stage[Any]] = []
        self._resets: list[Callable[[], None]] = []
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        self._flush_requested = False
        self._unanswered: list[tuple[Work[Any], object]] | None = None  # not None while a commit is under way
        self._commits: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._checkpoints: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._checkpoint_wanted = False
        self._finish_checkpoint = False
        self._high_ms = 0
        self._writes = 0
        self._writing = False
        self._idle: asyncio.Event | None = None
        self._failure: StoreUnavailable | None = None
        self.on_fatal: Callable[[Exception], None] = _raise
        self.on_room: Callable[[], None] = _go_on
        """Called when a store that was opened `alone` has room to be opened anew."""
        self.loop: asyncio.AbstractEventLoop
        self._copying_back = threading.Lock()
        self._pages_before = 0
        self._commit_pages_max = 0
        self._has_filled = False
        self.wal_pages = 0
        self.commits = 0
        try:
            self._open()
        except StartError:
            os.close(self._lock_fd)
            raise
        clock.not_before(self._high_ms)
        self._control = self.stage(self._run_control)
        self._clearing = self.stage(self._run_control, grows=lambda _: False)

    # -- opening ------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """In the usual way, then with what the reserve has left, then `alone`."""
        try:
            if not self._vfs:
                prepare_file(self._path)
            if self._opened():
                return
            self.space.refused()
            if self._opened():
                return
            self.alone = True
            if not self._opened():
                raise StartError(f"cannot use the data in {self._path.parent}: the disk is full", EXIT_DATA_FULL)
        except OSError as error:
            raise unusable(f"cannot write to {self._path}", error) from error
        except apsw.Error as error:
            raise StartError(f"cannot use the data in {self._path.parent}: {error}", EXIT_DATA_UNUSABLE) from error

    def _opened(self) -> bool:
        """Whether there is room for it."""
        connection: apsw.Connection | None = None
        try:
            self.connection = connection = connect(str(self._path), self._vfs, alone=self.alone)
            check(connection, self._path)
            self._guard(connection)
            if not self.alone:
                log_cut(self._path)
            self.boot, self._high_ms = begin_boot(connection, stored=not self.alone)
            self.reader = connection
            if not self.alone:
                self.reader = connect(str(self._path), self._vfs)
                self.reader.execute("PRAGMA query_only=ON")
        except apsw.Error as error:
            full = is_full(error, connection)
            if connection is not None:
                connection.close()
            if not full:
                raise
            return False
        except StartError:
            self.connection.close()
            raise
        return True

    @property
    def failure(self) -> str:
        """Why nothing can be written any more, or ''."""
        return str(self._failure or "")

    def full(self) -> str:
        """Why nothing that grows the store can be written just now, or ''. Looks for room; call it on the loop."""
        if self.space.refusing and self._unanswered is None:  # else the connection is the commit's
            self._look_for_room()
        return self.space.reason

    def create(self, schema: tuple[str, ...], added_columns: Mapping[str, Sequence[str]] | None = None) -> None:
        """Make tables that are missing, and columns (table → declarations) that older directories do not have; only
        before `start`."""
        try:
            create_tables(self.connection, schema, added_columns or {})
        except apsw.Error as error:
            if not is_full(error, self.connection):
                raise
            raise StartError(f"no room for new tables in {self._path}: the disk is full", EXIT_DATA_FULL) from error

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._idle = asyncio.Event()
        self._idle.set()
        if self.alone:
            return  # a connection is used by one thread at a time
        self.connection.set_wal_hook(self._count_wal)
        for target, name in ((self._commit_thread, "store-commit"), (self._checkpoint_thread, "store-checkpoint")):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    # -- what callers use ---------------------------------------------------------------------------------------------

    def stage(
        self,
        run: Callable[[list[Work[Item]]], list[tuple[Work[Item], object]]],
        grows: Callable[[Item], bool] = lambda _: True,
    ) -> Stage[Item]:
        """Stages run in the order they were made. `grows`: see `Stage`."""
        stage = Stage(self, run, grows)
        self._stages.append(stage)
        return stage

    def on_reset(self, callback: Callable[[], None]) -> None:
        """`callback` is called after a rollback: forget what was derived from the lost transaction."""
        self._resets.append(callback)

    def before_commit(self, callback: Callable[[], None]) -> None:
        """`callback` is called inside each transaction, after the stages."""
        self._before.append(callback)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """`callback` is called after each commit, once its callers have their answers."""
        self._after.append(callback)

    async def write(self, change: Callable[[apsw.Connection], T], *, grows: bool = True) -> T:
        """Run `change` inside the next transaction; durable when it returns. A RequestError undoes only this change.

        A change that `grows` the store is refused while the disk is full: StoreFull.
        """
        result: T = await (self._control if grows else self._clearing).submit(change)
        return result

    @property
    def writes(self) -> int:
        """How many commits had changes by `write` in them; -1 while one is under way. What was read of what only these
        change is still so as long as the number is the same."""
        return -1 if self._writing else self._writes

    # -- the group commit ---------------------------------------------------------------------------------------------

    def request_flush(self) -> None:
        if not self._flush_requested:
            self._flush_requested = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._unanswered is not None:
            return  # the commit under way calls again when it is done
        self._flush_requested = False
        assert self._idle is not None
        self._idle.set()
        if self.space.is_short:
            self._look_for_room()
        if not any(stage.waiting for stage in self._stages):
            return
        answers: list[tuple[Work[Any], object]] = []
        try:
            if self._failure is not None:
                raise self._failure
            self.connection.execute("BEGIN IMMEDIATE")
            for stage in self._stages:
                if stage.waiting:
                    answers += stage.run()
            for callback in self._before:
                callback()
            self._keep_high_water()
        except (apsw.Error, StoreUnavailable) as error:
            self._roll_back([work for work, _ in answers], error)
            return
        except BaseException as error:
            self._roll_back([work for work, _ in answers], StoreUnavailable("the store is stopping"))
            self._fatal(error)
            raise
        self._unanswered = answers
        self._idle.clear()
        if self.alone:
            self._commit()
        else:
            self._commits.put(self._commit)

    def _look_for_room(self) -> None:
        """Refuse what would grow the store while there is none."""
        self.space.look(self._unused_bytes)
        if self.alone and not self.space.refusing:
            self.on_room()
            self.space.refusing = True  # until then
        if not self.space.refusing:
            return
        for stage in self._stages:
            for work in stage.waiting:
                if stage.grows(work.item):
                    work.fail(StoreFull("the disk is full"))
            stage.waiting = [work for work in stage.waiting if not stage.grows(work.item)]

    def _unused_bytes(self) -> int:
        """Of the store's pages, those that hold nothing."""
        pages: int = 0 if self.alone else self.connection.pragma("freelist_count")
        return pages * PAGE_BYTES

    def _filled(self) -> None:
        """The disk is full: with what the reserve leaves, copy the log back, so that it starts over."""
        if self.space.refused() and not self.alone and not self._checkpoint_wanted:
            self._checkpoint_wanted = True
            self._checkpoints.put(True)

    def _keep_high_water(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._high_ms >= HIGH_WATER_MS and not self.alone:
            self.connection.execute("UPDATE meta SET high_ms = ?", (now_ms,))
            self._high_ms = now_ms

    def _run_control(self, batch: list[Work[Any]]) -> list[tuple[Work[Any], object]]:
        self._writes += 1
        self._writing = True
        answers: list[tuple[Work[Any], object]] = []
        execute = self.connection.execute
        for work in batch:
            execute("SAVEPOINT one")
            try:
                answers.append((work, work.item(self.connection)))
            except CnsError as error:
                execute("ROLLBACK TO one")
                work.fail(error)
            execute("RELEASE one")
        return answers

    def _commit(self) -> None:
        error: Exception | None = None
        kill_point(STORE_COMMIT)
        try:
            self.connection.execute("COMMIT")
        except apsw.Error as caught:
            error = caught
        kill_point(STORE_COMMITTED)
        if error is None:
            self._keep_room_for_log()
        if self._finish_checkpoint:
            # the background pass copied all but the newest frames: copying those lets the log start over
            self._finish_checkpoint = False
            kill_point(STORE_CHECKPOINT)
            with suppress(apsw.Error):  # what was committed stays so, and a later commit asks again
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._checkpoint_wanted = False
        with suppress(RuntimeError):  # the loop may be closed by now
            self.loop.call_soon_threadsafe(self._committed, error)

    def _keep_room_for_log(self) -> None:
        """On a disk that is nearly full, copy the log back before the next commit. A log that is larger than what is
        left could not be copied back any more, and then not even a delete could be written."""
        commit_pages = self.wal_pages - self._pages_before
        self._pages_before = self.wal_pages
        self._commit_pages_max = max(self._commit_pages_max, commit_pages)
        if self.alone or self.space.has_room_beside(self.wal_pages * PAGE_BYTES, self._commit_pages_max * PAGE_BYTES):
            return
        try:
            with self._copying_back:
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # the next commit tries again
            self._has_filled = is_full(error, self.connection)
        self._has_filled = self._has_filled or self.space.is_filling()

    def _committed(self, error: Exception | None) -> None:
        answers, self._unanswered = self._unanswered or [], None
        self._writing = False
        if error is None:
            self.commits += 1
            self.space.wrote()
            if self._has_filled:
                self._has_filled = False
                self._filled()
            for work, result in answers:
                if not work.future.done():
                    work.future.set_result(result)
            for callback in self._after:
                callback()
        else:
            self._roll_back([work for work, _ in answers], error, committing=True)
        if any(stage.waiting for stage in self._stages):
            self._flush_requested = True
            self._flush()
        else:
            self._flush_requested = False
            assert self._idle is not None
            self._idle.set()

    def _roll_back(self, works: list[Work[Any]], error: Exception, *, committing: bool = False) -> None:
        self._writing = False
        for stage in self._stages:
            works += stage.waiting
            stage.waiting = []
        full = is_full(error, self.connection, committing=committing)
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        translated = StoreFull("the disk is full") if full else _translate(error, committing)
        if full:
            self._filled()
        for work in works:
            work.fail(translated)
        for callback in self._resets:
            callback()
        if isinstance(translated, OutcomeUnknown):
            self._fatal(error)

    def _fatal(self, error: BaseException) -> None:
        """After a failed fsync the kernel may have dropped pages: only a new start can say what the disk holds."""
        self._failure = StoreUnavailable(f"the store has failed: {error}")
        self.loop.call_soon(self.on_fatal, error if isinstance(error, Exception) else RuntimeError(str(error)))

    # -- threads ------------------------------------------------------------------------------------------------------

    def _commit_thread(self) -> None:
        while (job := self._commits.get()) is not None:
            job()

    def _count_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        enough = CHECKPOINT_PAGES_FULL if self.space.is_short else CHECKPOINT_PAGES
        if pages >= enough and not self._checkpoint_wanted:
            self._checkpoint_wanted = True
            self._checkpoints.put(True)
        return apsw.SQLITE_OK

    def _checkpoint_thread(self) -> None:
        connection = connect(str(self._path), self._vfs)
        while self._checkpoints.get():
            try:
                with self._copying_back:
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._finish_checkpoint = True
            except apsw.Error as error:  # the log grows on, and the next commit asks again
                self._checkpoint_wanted = False
                if is_full(error, connection):
                    with suppress(RuntimeError):  # the loop may be closed by now
                        self.loop.call_soon_threadsafe(self._filled)
        connection.close()

    # -- closing ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        while self._flush_requested or self._unanswered is not None:
            assert self._idle is not None
            await self._idle.wait()
            await asyncio.sleep(0)
        self._commits.put(None)
        self._checkpoints.put(False)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        if not self.alone:
            self.reader.close()
        self.connection.close()
        os.close(self._lock_fd)


def _translate(error: Exception, committing: bool) -> CnsError:
    if isinstance(error, CnsError):
        return error
    if committing:
        return OutcomeUnknown(f"the commit failed: {error}")
    return StoreUnavailable(f"the store refused: {error}")


def _raise(error: Exception) -> None:
    raise error


def _go_on() -> None:
    """A store that is `alone` stays so."""
