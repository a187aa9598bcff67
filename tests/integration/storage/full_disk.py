"""`python -m tests.integration.storage.full_disk DIRECTORY SCENARIO`: run a store in DIRECTORY until its disk is full.

Prints the facts that the test checks as a JSON object. `run` starts it in a small file system of its own.
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
from lab.harness.running import own_disk
from lab.harness.waiting import PATIENCE_S

DISK_MIB = 48
MIB = 1024 * 1024
ROWS = 100
ROW_BYTES = 100_000


def run(directory: Path, scenario: str) -> dict[str, Any]:
    """Run a scenario (see `SCENARIOS`) on a disk of its own, and return its facts."""
    command = [*own_disk(directory, DISK_MIB), sys.executable, "-m", "tests.integration.storage.full_disk"]
    result = subprocess.run(
        [*command, str(directory), scenario], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert result.returncode == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])  # the lines before are the log
    return facts


async def open_without_space(directory: Path) -> dict[str, Any]:
    """Open a store that was closed, and so has no write-ahead log, on a disk without a free byte."""
    await _make(directory)
    _fill(directory / "filler")
    database = _open(directory)
    room: list[str] = []
    database.on_space_regained = lambda: room.append("room")
    facts = {
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
    facts |= {"room_after": room, "single_connection_after": database.single_connection}
    facts |= {"send_after": await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(10))")}
    await database.close()
    return facts


async def open_with_reserve(directory: Path) -> dict[str, Any]:
    """The same with a reserve: there is space to open the store and to delete."""
    await _make(directory, reserve_bytes=16 * MIB)
    _fill(directory / "filler")
    reserve_bytes = (directory / "reserve").stat().st_size
    database = _open(directory, reserve_bytes=16 * MIB)
    facts = {
        "reserve_bytes": reserve_bytes,
        "single_connection": database.single_connection,
        "send": await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(1000000))"),
        "full": database.full(),
        "delete": await _outcome(database, "DELETE FROM t WHERE n <= 80", grows=False),
        "reserve_given_up": (directory / "reserve").stat().st_size == 0,
        "rows": database.reader.execute("SELECT count(*) FROM t").get,
    }
    # deleted rows free more space in the store than the reserve has: new rows go there, and are refused again before
    # it is used up
    sent = 0
    while (sent_one := await _outcome(database, f"INSERT INTO t(filler) VALUES (zeroblob({ROW_BYTES}))")) == "done":
        sent += 1
    facts |= {"sent_into_freed_space": sent, "answer_after_these": sent_one, "full_again": database.full()}
    facts |= {"delete_again": await _outcome(database, "DELETE FROM t", grows=False)}
    (directory / "filler").unlink()
    facts |= {"send_after": await _outcome(database, "INSERT INTO t(filler) VALUES (zeroblob(10))")}
    facts |= {"full_after": database.full(), "reserve_after": (directory / "reserve").stat().st_size}
    await database.close()
    return facts


SCENARIOS = {scenario.__name__: scenario for scenario in (open_without_space, open_with_reserve)}


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
    print(json.dumps(asyncio.run(SCENARIOS[sys.argv[2]](Path(sys.argv[1])))))
