"""The SQLite store: group commit, and behaviour on disks that are full or fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE
from cns_common.errors import OutcomeUnknown, RequestError, StartError, StoreFull, StoreUnavailable
from cns_common.sqlite.checkpoints import CHECKPOINT_PAGES
from cns_common.sqlite.database import Database
from cns_common.sqlite.opening import PAGE_BYTES
from cns_common.sqlite.waiting_work import Work
from tests.integration.storage.faulty_disk import FaultyDisk

LOG_STARTS = 3
WRITES_MAX = 500_000


@asynccontextmanager
async def open_database(directory: Path, disk: FaultyDisk | None = None) -> AsyncIterator[Database]:
    """A database with one table, `t(n)`."""
    database = Database(directory, Clock(), disk.vfs if disk else None)
    database.create_tables(("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, filler BLOB)",))
    database.start(asyncio.get_running_loop())
    try:
        yield database
    finally:
        await database.close()


def insert(n: int, filler: bytes = b"") -> Callable[[apsw.Connection], int]:
    def change(connection: apsw.Connection) -> int:
        connection.execute("INSERT INTO t VALUES (?, ?)", (n, filler))
        return n

    return change


def rows(database: Database) -> list[int]:
    return [n for (n,) in database.reader.execute("SELECT n FROM t ORDER BY n")]


# -- the group commit -------------------------------------------------------------------------------------------------


async def test_all_writes_of_a_turn_are_one_commit(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        before = database.commits
        assert await asyncio.gather(*[database.write(insert(n)) for n in range(100)]) == list(range(100))
        assert database.commits == before + 1


@pytest.mark.parametrize("limit_s", [0.0, 1e9])
async def test_a_lone_writes_commit_runs_on_the_loop_where_commits_are_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float
) -> None:
    monkeypatch.setattr("cns_common.sqlite.database.COMMIT_ON_LOOP_S", limit_s)
    own, threads = threading.get_ident(), list[bool]()

    def before_commit() -> bool:
        threads.append(threading.get_ident() == own)
        return False

    async with open_database(tmp_path) as database:
        database.connection.set_commit_hook(before_commit)
        await database.write(insert(1))  # nothing is known of the disk's speed before
        await database.write(insert(2))
        await asyncio.gather(database.write(insert(3)), database.write(insert(4)))
    assert threads == [False, limit_s > 0, False]


async def test_an_answered_write_is_committed(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        for n in range(5):
            await database.write(insert(n))
            assert rows(database) == list(range(n + 1))


async def test_a_request_error_undoes_its_own_write_only(tmp_path: Path) -> None:
    def refused(connection: apsw.Connection) -> None:
        insert(99)(connection)
        raise RequestError("InvalidParameter", "no")

    async with open_database(tmp_path) as database:
        answers = await asyncio.gather(
            database.write(insert(1)), database.write(refused), database.write(insert(2)), return_exceptions=True
        )
        assert (answers[0], answers[2]) == (1, 2)
        assert isinstance(answers[1], RequestError)
        assert rows(database) == [1, 2]


async def test_a_failing_stage_rolls_back_the_turn_and_resets_derived_state(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        resets: list[str] = []
        committed: list[int] = []
        database.on_rollback(lambda: resets.append("reset"))
        database.on_commit(lambda: committed.append(database.commits))

        def fails(_: object) -> list[tuple[Work[object], object]]:
            database.connection.execute("INSERT INTO t VALUES (50, NULL)")
            raise apsw.ConstraintError("as if")

        stage = database.stage(fails)
        write = asyncio.create_task(database.write(insert(1)))
        await asyncio.sleep(0)
        answers = await asyncio.gather(write, stage.submit("one"), stage.submit("two"), return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
        assert (resets, committed, rows(database)) == (["reset"], [], [])
        assert await database.write(insert(1)) == 1
        assert (resets, len(committed), rows(database)) == (["reset"], 1, [1])


async def test_a_cancelled_write_does_not_affect_others(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        writes = [asyncio.create_task(database.write(insert(n))) for n in range(10)]
        await asyncio.sleep(0)
        writes[3].cancel()
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert [answer for answer in answers if not isinstance(answer, asyncio.CancelledError)] == [
            n for n in range(10) if n != 3
        ]


async def test_close_finishes_running_writes(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        writes = [asyncio.create_task(database.write(insert(n))) for n in range(10)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*writes) == list(range(10))
    async with open_database(tmp_path) as database:
        assert rows(database) == list(range(10))


# -- full and failing disks --------------------------------------------------------------------------------------------


async def test_full_at_a_new_page(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        pages = database.connection.pragma("page_count")
        database.connection.pragma("max_page_count", pages + 2)
        with pytest.raises(StoreFull):
            await database.write(insert(1, b"x" * 10 * PAGE_BYTES))
        assert rows(database) == []
        database.connection.pragma("max_page_count", pages + 1_000)
        assert await database.write(insert(1, b"x" * 10 * PAGE_BYTES)) == 1


async def test_full_at_the_commit(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with open_database(tmp_path, disk) as database:
        await database.write(insert(1))
        disk.full = True
        answers = await asyncio.gather(*[database.write(insert(n)) for n in range(2, 6)], return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreFull] * 4
        assert disk.refused
        assert rows(database) == [1]
        disk.full = False
        assert await database.write(insert(2)) == 2
    async with open_database(tmp_path) as database:
        assert rows(database) == [1, 2]


async def test_full_only_for_the_checkpoint(tmp_path: Path) -> None:
    """For a while the log cannot be copied back: it grows, and commits still succeed."""
    disk = FaultyDisk()
    disk.only = "store.db"
    async with open_database(tmp_path, disk) as database:
        disk.full = True
        filler = b"x" * 250 * PAGE_BYTES
        for n in range(40):
            assert await database.write(insert(n, filler)) == n
        assert disk.refused
        assert database.wal_pages > CHECKPOINT_PAGES
        disk.full = False
        for n in range(40, 80):
            await database.write(insert(n, filler))
        assert database.wal_pages < CHECKPOINT_PAGES * 2
        assert rows(database) == list(range(80))


async def test_a_failed_sync_stops_the_store(tmp_path: Path) -> None:
    """The state of the disk is unknown: callers get that error, and only a restart helps."""
    disk = FaultyDisk()
    fatal: list[Exception] = []
    async with open_database(tmp_path, disk) as database:
        database.on_fatal = fatal.append
        await database.write(insert(1))
        disk.broken = True
        beside = asyncio.gather(*[database.write(insert(n)) for n in (2, 3)], return_exceptions=True)
        assert [type(answer) for answer in await beside] == [OutcomeUnknown] * 2
        disk.broken = False
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await database.write(insert(4))
        assert len(fatal) == 1
    async with open_database(tmp_path) as database:
        assert rows(database) in ([1], [1, 2, 3])
        assert await database.write(insert(4)) == 4


# -- the log ----------------------------------------------------------------------------------------------------------


async def test_the_log_starts_over_under_constant_writes(tmp_path: Path) -> None:
    """How large it gets depends on the disk."""
    async with open_database(tmp_path) as database:
        filler = b"x" * 1_024
        numbers = iter(range(WRITES_MAX))
        starts, pages = 0, 0

        async def writer() -> None:
            nonlocal starts, pages
            for n in numbers:
                await database.write(insert(n, filler))
                starts += database.wal_pages < pages
                pages = database.wal_pages
                if starts == LOG_STARTS:
                    return

        await asyncio.gather(*[writer() for _ in range(50)])
        assert starts == LOG_STARTS
        assert len(rows(database)) == next(numbers)


# -- opening ----------------------------------------------------------------------------------------------------------


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        await database.write(insert(1))
        with pytest.raises(StartError) as refused:
            Database(tmp_path, Clock())
        assert refused.value.exit_code == EXIT_DATA_IN_USE
        assert str(tmp_path) in str(refused.value)
        assert await database.write(insert(2)) == 2
    async with open_database(tmp_path) as database:
        assert rows(database) == [1, 2]


async def test_the_lock_of_a_dead_process_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("999999\n")
    async with open_database(tmp_path) as database:
        assert await database.write(insert(1)) == 1


def _make_file(directory: Path) -> None:
    directory.write_text("a file")


def _make_garbage(directory: Path) -> None:
    directory.mkdir()
    (directory / "store.db").write_bytes(b"this is no database" * 1_000)


@pytest.mark.parametrize("prepare", [_make_file, _make_garbage])
def test_unusable_data_is_refused_and_not_changed(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    directory = tmp_path / "data"
    prepare(directory)
    for _ in range(2):  # the lock is released each time
        with pytest.raises(StartError) as refused:
            Database(directory, Clock())
        assert refused.value.exit_code == EXIT_DATA_UNUSABLE


async def test_every_start_has_its_own_number(tmp_path: Path) -> None:
    boots = []
    for _ in range(3):
        async with open_database(tmp_path) as database:
            boots.append(database.boot)
    assert boots == sorted(set(boots))


async def test_time_does_not_go_back_over_a_restart(tmp_path: Path) -> None:
    fast_clock = Clock()
    fast_clock.advance(86_400_000)
    database = Database(tmp_path, fast_clock)
    database.create_tables(("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, filler BLOB)",))
    database.start(asyncio.get_running_loop())
    await database.write(insert(1))
    await database.close()
    last_ms = fast_clock.now_ms()
    slow_clock = Clock()
    reopened = Database(tmp_path, slow_clock)
    reopened.start(asyncio.get_running_loop())
    assert slow_clock.now_ms() >= last_ms - 1_000
    await reopened.close()
