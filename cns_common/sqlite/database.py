"""One SQLite file with group commit: all writes of a loop turn are one transaction, and one fsync answers them all.

Statements run on the event loop's own thread, batched by stage. The COMMIT, which waits for the disk, runs in a thread
of its own, except that of a lone caller on a fast disk. Meanwhile new work gathers for the next transaction. (ADR 0001
has the measurements: a thread that ran every statement lost half the throughput to hand-overs of the interpreter lock.)
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import apsw

from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_FULL, lock_directory
from cns_common.errors import CnsError, OutcomeUnknown, StartError, StoreFull, StoreUnavailable
from cns_common.move_mark import check_unmoved
from cns_common.process.kill_points import MIGRATION_TABLES_MADE, STORE_COMMIT, STORE_COMMITTED, kill_point
from cns_common.sqlite.checkpoints import Checkpointer
from cns_common.sqlite.disk_space import DiskSpace, is_full
from cns_common.sqlite.format import BeforeMigration, mark_format, refuse_migration
from cns_common.sqlite.opening import PAGE_BYTES, Guard, create_tables, open_store
from cns_common.sqlite.waiting_work import Item, Stage, Work

HIGH_WATER_MS = 1_000
"""The highest time seen is stored this often, so that a restarted clock is never behind it by more."""

LOCK_FILE = "lock"
STORE_FILE = "store.db"

COMMIT_ON_LOOP_S = 0.0005
"""Where commits are faster than this on average, that of a lone caller runs on the loop: handing it to the thread and
back takes longer."""
COMMITS_AVERAGED = 16

T = TypeVar("T")


class Database:
    """The only opener of its directory. Use it from one event loop; `close` waits for the commit under way.

    `guard` may refuse the store by a StartError, before anything is written, and `before_migration` one of an earlier
    format, whose tables the caller makes before `start`. `program` is the version that the store names as its last.
    Only `cns migrate`, which is `moving` it, opens a store that it has marked.
    On a disk too full for a second connection's index or for the number of this start, the store opens with a
    `single_connection`: it can be read, and what needs room is refused until a new start finds some.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        vfs: str | None = None,
        guard: Guard = lambda _: None,
        space: DiskSpace | None = None,
        before_migration: BeforeMigration = refuse_migration,
        program: str = "",
        *,
        moving: bool = False,
    ) -> None:
        self._lock_fd = lock_directory(directory, LOCK_FILE)
        self._path = directory / STORE_FILE
        self._clock = clock
        self.space = space or DiskSpace(directory)
        try:
            if not moving:
                check_unmoved(directory)
            store = open_store(self._path, vfs, guard, self.space, before_migration)
        except StartError:
            os.close(self._lock_fd)
            raise
        self.connection, self.reader = store.writer, store.reader
        self.boot = store.boot
        self.single_connection = store.single
        self._index_fd = store.index_fd
        self._high_ms = store.high_ms
        self._migrates = store.migrates
        self._program = program
        clock.not_before(store.high_ms)
        self._rollback_callbacks: list[Callable[[], None]] = []
        self._before_commit: list[Callable[[], None]] = []
        self._after_commit: list[Callable[[], None]] = []
        self._flush_requested = False
        self._unanswered: list[tuple[Work[Any], object]] | None = None  # not None while a commit is under way
        self._commits: queue.SimpleQueue[Callable[[], Exception | None] | None] = queue.SimpleQueue()
        self._commit_s = COMMIT_ON_LOOP_S  # on average, of late
        self._checkpointer = Checkpointer(self._path, vfs, self.space, self._report_full_disk)
        self._threads: list[threading.Thread] = []
        self._writes = 0
        self._writing = False
        self._idle: asyncio.Event | None = None
        self._failure: StoreUnavailable | None = None
        self.on_fatal: Callable[[Exception], None] = _raise
        self.on_space_regained: Callable[[], None] = _do_nothing
        """Called when a store with a `single_connection` has room to be opened in the usual way."""
        self.loop: asyncio.AbstractEventLoop
        self.commits = 0
        self._stages: list[Stage[Any]] = []
        self._growing = self.stage(self._run_changes)
        self._shrinking = self.stage(self._run_changes, grows=lambda _: False)

    @property
    def failure(self) -> str:
        """Why nothing can be written any more, or ''."""
        return str(self._failure or "")

    @property
    def file_bytes(self) -> int:
        """The size of the store's file, without its write-ahead log; 0 if somebody removed it."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    @property
    def wal_pages(self) -> int:
        """The length of the write-ahead log."""
        return self._checkpointer.wal_pages

    def full(self) -> str:
        """Why writes that grow the store are refused just now, or ''. Checks the disk; call it on the loop."""
        if self.space.refusing and self._unanswered is None:  # else the connection is the commit's
            self._check_space()
        return self.space.reason

    def create_tables(self, schema: tuple[str, ...], added_columns: Mapping[str, Sequence[str]] | None = None) -> None:
        """Make missing tables, and the columns (table → declarations) that tables of an older directory lack; only
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
        if self.single_connection:
            return  # one thread at a time may use a connection, and this one has no other
        if self._migrates:
            kill_point(MIGRATION_TABLES_MADE)
        if self._migrates or self._program:
            mark_format(self.connection, self._program, self.boot)
        self.connection.set_wal_hook(self._checkpointer.count_pages)
        for target, name in ((self._run_commits, "store-commit"), (self._checkpointer.run, "store-checkpoint")):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    async def close(self) -> None:
        while self._flush_requested or self._unanswered is not None:
            assert self._idle is not None
            await self._idle.wait()
            await asyncio.sleep(0)
        self._commits.put(None)
        self._checkpointer.stop()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        if not self.single_connection:
            self.reader.close()
        self.connection.close()
        if self._index_fd is not None:
            os.close(self._index_fd)
        os.close(self._lock_fd)

    # -- what callers use ---------------------------------------------------------------------------------------------

    def stage(
        self,
        run: Callable[[list[Work[Item]]], list[tuple[Work[Item], object]]],
        grows: Callable[[Item], bool] = lambda _: True,
    ) -> Stage[Item]:
        """Make a stage; see `Stage`. Stages run in the order they were made."""
        stage = Stage(self._submitted, run, grows)
        self._stages.append(stage)
        return stage

    def on_rollback(self, callback: Callable[[], None]) -> None:
        """`callback` is called after a rollback, to forget what was derived from the lost transaction."""
        self._rollback_callbacks.append(callback)

    def before_commit(self, callback: Callable[[], None]) -> None:
        """`callback` is called inside each transaction, after the stages."""
        self._before_commit.append(callback)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """`callback` is called after each commit, once its callers have their answers."""
        self._after_commit.append(callback)

    async def write(self, change: Callable[[apsw.Connection], T], *, grows: bool = True) -> T:
        """Run `change` inside the next transaction; durable when it returns. A RequestError undoes only this change.

        A change that `grows` the store is refused while the disk is full: StoreFull.
        """
        result: T = await (self._growing if grows else self._shrinking).submit(change)
        return result

    async def flush(self) -> None:
        """Wait until what was answered before is committed, so that `reader` sees it: some answers come before their
        commit."""
        if self._flush_requested or self._unanswered is not None:
            await self.write(lambda _: None, grows=False)

    @property
    def writes(self) -> int:
        """The number of commits that contained a `write`; -1 while one is under way. Rows that change only by `write`
        are as they were read as long as this number is the same."""
        return -1 if self._writing else self._writes

    # -- the group commit ---------------------------------------------------------------------------------------------

    def _submitted(self) -> asyncio.Future[Any]:
        """Let the next transaction take an item of a stage, in the loop's next turn; the future gets its answer."""
        if not self._flush_requested:
            self._flush_requested = True
            self.loop.call_soon(self._flush)
        return self.loop.create_future()

    def _flush(self) -> None:
        """Run all waiting work in one transaction, and commit it: on the loop if that is quick, else in the thread."""
        if self._unanswered is not None:
            return  # the commit under way calls again when it is done
        self._flush_requested = False
        assert self._idle is not None
        self._idle.set()
        if self.space.needs_check:
            self._check_space()
        if not any(stage.waiting for stage in self._stages):
            return
        answers: list[tuple[Work[Any], object]] = []
        try:
            self._run_stages(answers)
        except (apsw.Error, StoreUnavailable) as error:
            self._roll_back([work for work, _ in answers], error)
            return
        except BaseException as error:
            self._roll_back([work for work, _ in answers], StoreUnavailable("the store is stopping"))
            self._fail(error)
            raise
        self._unanswered = answers
        self._idle.clear()
        is_quick = len(answers) == 1 and self._commit_s < COMMIT_ON_LOOP_S and not self._checkpointer.is_due
        if self.single_connection or is_quick:
            self._finish_commit(self._commit())
        else:
            self._commits.put(self._commit)

    def _run_stages(self, answers: list[tuple[Work[Any], object]]) -> None:
        """Begin a transaction and do all of its work; `answers` grows stage by stage."""
        if self._failure is not None:
            raise self._failure
        self.connection.execute("BEGIN IMMEDIATE")
        for stage in self._stages:
            if stage.waiting:
                answers += stage.run()
        for callback in self._before_commit:
            callback()
        now_ms = self._clock.now_ms()
        if now_ms - self._high_ms >= HIGH_WATER_MS and not self.single_connection:
            self.connection.execute("UPDATE meta SET high_ms = ?", (now_ms,))
            self._high_ms = now_ms

    def _run_changes(self, batch: list[Work[Any]]) -> list[tuple[Work[Any], object]]:
        """The stage of `write`."""
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

    def _run_commits(self) -> None:
        """The commit thread."""
        while (commit := self._commits.get()) is not None:
            error = commit()
            with suppress(RuntimeError):  # the loop may be closed by now
                self.loop.call_soon_threadsafe(self._finish_commit, error)

    def _commit(self) -> Exception | None:
        error: Exception | None = None
        began_s = perf_counter()
        kill_point(STORE_COMMIT)
        try:
            self.connection.execute("COMMIT")
        except apsw.Error as caught:
            error = caught
        kill_point(STORE_COMMITTED)
        if not self.single_connection:
            self._checkpointer.after_commit(self.connection, committed=error is None)
        self._commit_s += (perf_counter() - began_s - self._commit_s) / COMMITS_AVERAGED
        return error

    def _finish_commit(self, error: Exception | None) -> None:
        """Answer the callers, on the loop, and flush what has gathered meanwhile."""
        answers, self._unanswered = self._unanswered or [], None
        self._writing = False
        if error is None:
            self.commits += 1
            self.space.mark_written()
            if self._checkpointer.disk_is_full:
                self._checkpointer.disk_is_full = False
                self._handle_full_disk()
            for work, result in answers:
                if not work.future.done():
                    work.future.set_result(result)
            for callback in self._after_commit:
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
        """Undo the transaction; fail `works` and all waiting work."""
        self._writing = False
        for stage in self._stages:
            works += stage.waiting
            stage.waiting = []
        full = is_full(error, self.connection, committing=committing)
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        translated = StoreFull("the disk is full") if full else _translate(error, committing)
        if full:
            self._handle_full_disk()
        for work in works:
            work.fail(translated)
        for callback in self._rollback_callbacks:
            callback()
        if isinstance(translated, OutcomeUnknown):
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Refuse all further work: after a failed fsync the kernel may have dropped pages, and only a new start finds
        out what the disk holds."""
        self._failure = StoreUnavailable(f"the store has failed: {error}")
        self.loop.call_soon(self.on_fatal, error if isinstance(error, Exception) else RuntimeError(str(error)))

    # -- a full disk --------------------------------------------------------------------------------------------------

    def _check_space(self) -> None:
        """Look for room; while there is none, refuse waiting work that would grow the store."""
        self.space.check(self._unused_bytes)
        if self.single_connection and not self.space.refusing:
            self.on_space_regained()
            self.space.refusing = True  # until the store is opened anew
        if not self.space.refusing:
            return
        for stage in self._stages:
            for work in stage.waiting:
                if stage.grows(work.item):
                    work.fail(StoreFull("the disk is full"))
            stage.waiting = [work for work in stage.waiting if not stage.grows(work.item)]

    def _unused_bytes(self) -> int:
        """The size of the store's free pages."""
        pages: int = 0 if self.single_connection else self.connection.pragma("freelist_count")
        return pages * PAGE_BYTES

    def _handle_full_disk(self) -> None:
        """Release the reserve, and copy the log back into the room that it leaves, so that the log starts over."""
        if self.space.mark_full() and not self.single_connection:
            self._checkpointer.request()

    def _report_full_disk(self) -> None:
        """As `_handle_full_disk`, from another thread."""
        with suppress(RuntimeError):  # the loop may be closed by now
            self.loop.call_soon_threadsafe(self._handle_full_disk)


def _translate(error: Exception, committing: bool) -> CnsError:
    if isinstance(error, CnsError):
        return error
    if committing:
        return OutcomeUnknown(f"the commit failed: {error}")
    return StoreUnavailable(f"the store refused: {error}")


def _raise(error: Exception) -> None:
    raise error


def _do_nothing() -> None:
    """A store with a single connection stays as it is."""
