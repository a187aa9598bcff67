"""Stores that are foreign, incomplete or damaged: each is refused with one line and not changed."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
import structlog

from cns_backend.store_host import StoreHost
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_FULL, EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_common.sqlite.database import Database
from cns_common.sqlite.format import FORMAT
from cns_common.sqlite.integrity_check import check_integrity
from cns_common.sqlite.opening import QUICK_CHECK_BYTES_MAX
from cns_common.sqlite.wal import FRAME_HEADER_BYTES, HEADER_BYTES, find_lost_commits, open_index

PAGE_BYTES = 4096
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES
COMMITS = 6


async def write_store(directory: Path, rows: int = 1, copy: Path | None = None) -> None:
    """Write a store with one commit per row. `copy`: the directory for a copy as a crash leaves it, all in the log."""
    database = Database(directory, Clock())
    database.create_tables(("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, filler BLOB)",))
    database.start(asyncio.get_running_loop())
    for _ in range(rows):
        await database.write(lambda connection: connection.execute("INSERT INTO t(filler) VALUES (zeroblob(9000))"))
    if copy is not None:
        copy.mkdir()
        for name in ("store.db", "store.db-wal"):
            shutil.copy(directory / name, copy / name)
    await database.close()


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file() and path.name != "lock"}


def refused_twice(directory: Path) -> StartError:
    """The error at opening the store. It is raised twice, and nothing is written to the directory."""
    before = files_of(directory)
    for _ in range(2):
        with pytest.raises(StartError) as refused:
            Database(directory, Clock())
        assert files_of(directory) == before
    return refused.value


def commits_in(log: bytes) -> list[int]:
    """The indexes of the frames that end a transaction."""
    heads = [log[at : at + 8] for at in range(HEADER_BYTES, len(log), FRAME_BYTES)]
    return [number for number, head in enumerate(heads) if struct.unpack(">II", head)[1]]


def flip_byte(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0xFF]))


async def write_damaged_store(directory: Path) -> None:
    await write_store(directory, rows=20)
    for at in (0, 3):
        flip_byte(directory / "store.db", 5 * PAGE_BYTES + at)


# -- foreign -----------------------------------------------------------------------------------------------------------


def _remove(directory: Path) -> None:
    (directory / "store.db").unlink()


def _truncate(directory: Path) -> None:
    (directory / "store.db").write_bytes(b"")


def _remove_tables(directory: Path) -> None:
    """Leave the store as it is before its first log is copied back, without that log."""
    _remove(directory)
    connection = apsw.Connection(str(directory / "store.db"))
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA user_version=1").fetchall()
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "reason"), [(_remove, "is missing"), (_truncate, "is empty"), (_remove_tables, "holds nothing")]
)
async def test_a_lost_store_beside_its_master_key(tmp_path: Path, prepare: Callable[[Path], None], reason: str) -> None:
    await write_store(tmp_path)
    (tmp_path / "master.key").write_text("key")
    prepare(tmp_path)
    error = refused_twice(tmp_path)
    assert error.exit_code == EXIT_DATA_UNUSABLE
    assert f"{tmp_path}/store.db {reason}" in str(error)
    assert "to start anew" in str(error)


async def test_a_lost_master_key(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, reserve_bytes=0)
    host = StoreHost(settings)
    await host.start()
    await host.accounts.create(0)
    await host.close()
    (tmp_path / "master.key").unlink()
    before = files_of(tmp_path)
    with pytest.raises(StartError, match="restore it, or set CNS_MASTER_KEY") as refused:
        StoreHost(settings)
    assert refused.value.exit_code == EXIT_DATA_UNUSABLE
    assert files_of(tmp_path) == before, "neither a key nor anything else is written"


async def test_a_first_start_interrupted_before_its_key_continues(tmp_path: Path) -> None:
    await write_store(tmp_path)
    host = StoreHost(Settings(data=tmp_path, reserve_bytes=0))
    await host.start()
    await host.close()
    assert (tmp_path / "master.key").exists()


async def test_a_database_of_another_program(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute("PRAGMA journal_mode=WAL; CREATE TABLE theirs(n)").fetchall()
    connection.close()
    assert "is no store of cns" in str(refused_twice(tmp_path))


@pytest.mark.parametrize("statement", [f"PRAGMA user_version={FORMAT + 1}", f"UPDATE meta SET format = {FORMAT + 1}"])
async def test_a_store_of_a_newer_version(tmp_path: Path, statement: str) -> None:
    await write_store(tmp_path)
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute(statement)
    connection.close()
    error = refused_twice(tmp_path)
    assert (error.exit_code, f"is of format {FORMAT + 1}, written by" in str(error)) == (EXIT_DATA_UNUSABLE, True)


def test_a_file_that_cannot_be_opened_for_writing(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    error = refused_twice(tmp_path)
    assert (error.exit_code, str(error)) == (
        EXIT_DATA_UNUSABLE,
        f"cannot write to {tmp_path}/store.db: Is a directory",
    )


@pytest.mark.parametrize(
    ("fault", "exit_code"),
    [
        (PermissionError(13, "Permission denied"), EXIT_DATA_UNUSABLE),
        (OSError(30, "Read-only file system"), EXIT_DATA_UNUSABLE),
        (OSError(28, "No space left on device"), EXIT_DATA_FULL),
    ],
)
async def test_a_file_system_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: OSError, exit_code: int
) -> None:
    await write_store(tmp_path)
    opened = os.open

    def refuse(path: str | Path, *arguments: int) -> int:
        if str(path).endswith("store.db"):
            raise fault
        return opened(path, *arguments)

    monkeypatch.setattr("os.open", refuse)
    error = refused_twice(tmp_path)
    assert error.exit_code == exit_code
    assert fault.strerror
    assert fault.strerror in str(error)


# -- damaged ----------------------------------------------------------------------------------------------------------


async def test_a_damaged_page_ends_the_start(tmp_path: Path) -> None:
    await write_damaged_store(tmp_path)
    error = refused_twice(tmp_path)
    assert (error.exit_code, "is damaged" in str(error)) == (EXIT_DATA_UNUSABLE, True)
    assert "cns check" in str(error)


async def test_a_large_store_is_not_scanned_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await write_damaged_store(tmp_path)
    assert (tmp_path / "store.db").stat().st_size < QUICK_CHECK_BYTES_MAX
    monkeypatch.setattr("cns_common.sqlite.opening.QUICK_CHECK_BYTES_MAX", 10 * PAGE_BYTES)
    database = Database(tmp_path, Clock())
    database.start(asyncio.get_running_loop())
    await database.close()
    assert check_integrity(tmp_path / "store.db").faults, "that is what `cns check` is for"


async def test_commits_behind_a_damaged_frame_are_counted_in_the_log(tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    await write_store(tmp_path / "data", COMMITS, crashed)
    log = crashed / "store.db-wal"
    ends = commits_in(log.read_bytes())
    flip_byte(log, HEADER_BYTES + (ends[-3] + 1) * FRAME_BYTES + FRAME_HEADER_BYTES + 100)  # in the last commit but one
    with structlog.testing.capture_logs() as logged:
        database = Database(crashed, Clock())
    (entry,) = [entry for entry in logged if entry["event"] == "store.wal_truncated"]
    assert (entry["frames_kept"], entry["commits_missing"]) == (ends[-3] + 1, 2)
    assert database.reader.execute("SELECT count(*) FROM t").get == COMMITS - 2
    database.start(asyncio.get_running_loop())
    await database.close()


async def test_a_log_with_a_damaged_header_is_ignored_and_logged(tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    await write_store(tmp_path / "first", 1)
    await write_store(tmp_path / "first", COMMITS, crashed)
    ends = commits_in((crashed / "store.db-wal").read_bytes())
    flip_byte(crashed / "store.db-wal", 16)
    with structlog.testing.capture_logs() as logged:
        database = Database(crashed, Clock())
    (entry,) = [entry for entry in logged if entry["event"] == "store.wal_truncated"]
    assert (entry["header_damaged"], entry["frames_kept"], entry["commits_missing"]) == (True, 0, len(ends))
    database.start(asyncio.get_running_loop())
    await database.close()


async def test_an_intact_log_with_frames_of_a_former_one_is_not_logged(tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    await write_store(tmp_path / "data", COMMITS, crashed)
    log = crashed / "store.db-wal"
    stale = bytearray(log.read_bytes()[HEADER_BYTES:])
    for at in range(0, len(stale), FRAME_BYTES):
        stale[at + 8] ^= 0xFF  # a former log had other salts
    with log.open("ab") as file:
        file.write(stale)
        file.write(b"half a frame's head"[:10])
    with structlog.testing.capture_logs() as logged:
        database = Database(crashed, Clock())
    assert [entry["event"] for entry in logged] == []
    assert database.reader.execute("SELECT count(*) FROM t").get == COMMITS
    database.start(asyncio.get_running_loop())
    await database.close()


def test_a_store_without_log_is_not_truncated(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    assert find_lost_commits(store, open_index(store)) == (0, 0, False)


async def test_an_open_store_holds_its_lock_on_the_index(tmp_path: Path) -> None:
    """Without it, the next process that opens the store truncates the index that this one has mapped."""
    database = Database(tmp_path, Clock())
    database.start(asyncio.get_running_loop())
    try:
        inode = (tmp_path / "store.db-shm").stat().st_ino
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if f":{inode} " in line]
        assert [str(os.getpid()) in line for line in held].count(True) == 1
    finally:
        await database.close()


# -- cns check --------------------------------------------------------------------------------------------------------


async def test_check_of_an_intact_store_changes_nothing(tmp_path: Path) -> None:
    await write_store(tmp_path, rows=20)
    before = files_of(tmp_path)
    found = check_integrity(tmp_path / "store.db")
    assert (found.faults, found.pages) == ((), len(before["store.db"]) // PAGE_BYTES)
    assert files_of(tmp_path) == before


async def test_check_reads_the_log_of_a_crash_and_changes_nothing(tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    await write_store(tmp_path / "data", COMMITS, crashed)
    before = files_of(crashed)
    assert check_integrity(crashed / "store.db").faults == ()
    ends = commits_in(before["store.db-wal"])
    flip_byte(crashed / "store.db-wal", HEADER_BYTES + (ends[-3] + 1) * FRAME_BYTES + FRAME_HEADER_BYTES)
    (crashed / "store.db-shm").unlink()
    (fault,) = check_integrity(crashed / "store.db").faults
    assert fault == f"the log is cut after frame {ends[-3] + 1}: 2 commits behind it are missing"
    assert files_of(crashed)["store.db"] == before["store.db"]
    assert len(files_of(crashed)["store.db-wal"]) == len(before["store.db-wal"])


async def test_check_reports_damage_of_any_size(tmp_path: Path) -> None:
    await write_damaged_store(tmp_path)
    assert check_integrity(tmp_path / "store.db").faults
    (tmp_path / "store.db").write_bytes(b"no database" * 1_000)
    assert check_integrity(tmp_path / "store.db").faults == ("file is not a database",)


async def test_check_works_beside_the_service(tmp_path: Path) -> None:
    database = Database(tmp_path, Clock())
    database.create_tables(("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, filler BLOB)",))
    database.start(asyncio.get_running_loop())
    await database.write(lambda connection: connection.execute("INSERT INTO t(n) VALUES (1)"))
    assert await asyncio.to_thread(check_integrity, tmp_path / "store.db") == (
        database.connection.pragma("page_count"),
        (),
    )
    await database.write(lambda connection: connection.execute("INSERT INTO t(n) VALUES (2)"))
    await database.close()
