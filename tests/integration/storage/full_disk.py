"""`python -m tests.integration.storage.full_disk DIRECTORY`: what a store does on a full disk, which DIRECTORY must be.

Prints a JSON object of what was seen. `run` starts it on a small file system of its own, which only it sees.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from cns_common.clock import Clock
from cns_common.errors import StoreFull
from cns_common.sqlite.database import Database
from tests.acceptance.running import own_disk

DISK_MIB = 48
MIB = 1024 * 1024
ROWS = 100
ROW_BYTES = 100_000


def run(directory: Path, what: str) -> dict[str, Any]:
    """Do `what` (see `SCENES`) on a disk of its own."""
    command = [*own_disk(directory, DISK_MIB), sys.executable, "-m", "tests.integration.storage.full_disk"]
    done = subprocess.run([*command, str(directory), what], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # before it are lines of the log
    return seen


async def opened_without_any_room(directory: Path) -> dict[str, Any]:
    """The store was closed, so that it has neither log nor index, and then the disk was filled to its last byte."""
    await _make(directory)
    _fill(directory / "filler")
    database = _open(directory)
    room: list[str] = []
    database.on_space_regained = lambda: room.append("room")
    seen = {
        "single_connection": database.single_connection,
        "rows": database.reader.execute("SELECT count(*) FROM t").get,
        "send": await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(10))"),
        "count": await database.write(lambda connection: connection.execute("SELECT count(*) FROM t").get, grows=False),
        "delete": await _outcome(database, "DELETE FROM t WHERE n = 1", grows=False),
        "full": database.full(),
        "room_before": list(room),
    }
    (directory / "filler").unlink()
    await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(10))")
    await database.close()
    database = _open(directory)
    seen |= {"room_after": room, "single_connection_after": database.single_connection}
    seen |= {"send_after": await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(10))")}
    await database.close()
    return seen


async def opened_with_the_reserve(directory: Path) -> dict[str, Any]:
    """The same with a reserve: there is room to open and to delete."""
    await _make(directory, reserve_bytes=16 * MIB)
    _fill(directory / "filler")
    reserve_bytes = (directory / "reserve").stat().st_size
    database = _open(directory, reserve_bytes=16 * MIB)
    seen = {
        "reserve_bytes": reserve_bytes,
        "single_connection": database.single_connection,
        "send": await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(1000000))"),
        "full": database.full(),
        "delete": await _outcome(database, "DELETE FROM t WHERE n <= 80", grows=False),
        "reserve_given_up": (directory / "reserve").stat().st_size == 0,
        "rows": database.reader.execute("SELECT count(*) FROM t").get,
    }
    # what was deleted leaves more room within the store than the reserve has: rows go into it, and are refused again
    # before it is used up
    sent = 0
    while (sent_one := await _outcome(database, f"INSERT INTO t(filler) VALUES (zeroblob({ROW_BYTES}))")) == "done":
        sent += 1
    seen |= {"sent_into_what_was_deleted": sent, "then": sent_one, "full_again": database.full()}
    seen |= {"delete_again": await _outcome(database, "DELETE FROM t", grows=False)}
    (directory / "filler").unlink()
    seen |= {"send_after": await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(10))")}
    seen |= {"full_after": database.full(), "reserve_after": (directory / "reserve").stat().st_size}
    await database.close()
    return seen


SCENES = {scene.__name__: scene for scene in (opened_without_any_room, opened_with_the_reserve)}


async def _make(directory: Path, reserve_bytes: int = 0) -> None:
    database = _open(directory, reserve_bytes)
    for _ in range(ROWS):
        assert await _outcome(database, f"INSERT INTO t(filler) VALUES (zeroblob({ROW_BYTES}))") == "done"
    await database.close()


def _open(directory: Path, reserve_bytes: int = 0) -> Database:
    database = Database(directory, Clock())
    database.create_tables(("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, filler BLOB)",))
    database.space.keep_reserve(reserve_bytes)
    database.start(asyncio.get_running_loop())
    return database


async def _outcome(database: Database, statement: str, *, grows: bool = True) -> str:
    def change(connection: apsw.Connection) -> None:
        connection.execute(statement)

    try:
        await database.write(change, grows=grows)
    except StoreFull as error:
        return str(error)
    return "done"


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as out:
        for size in (MIB, 4096):
            with suppress(OSError):
                while out.write(b"\0" * size):
                    pass


if __name__ == "__main__":
    print(json.dumps(asyncio.run(SCENES[sys.argv[2]](Path(sys.argv[1])))))
