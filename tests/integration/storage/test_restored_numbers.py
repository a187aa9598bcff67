"""The numbers of starts, which receipt handles and messages contain, across restores."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from cns_backend.backups.backup import make_backup
from cns_cli.store.restore import restore
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.sqlite.database import Database
from tests.integration.storage.test_store_opening import write_store


async def boot_of_next_start(data: Path) -> int:
    database = Database(data, Clock())
    await database.close()
    return database.boot


@pytest.mark.parametrize("cut_off", [False, True], ids=["closed", "killed: all in its log"])
async def test_a_backup_that_is_restored_twice_gives_no_number_twice(tmp_path: Path, cut_off: bool) -> None:
    """A handle of the first time would delete a message of the second."""
    source, data, backup = tmp_path / "source", tmp_path / "data", tmp_path / "backup"
    await write_store(source)
    make_backup(Settings(data=source), backup)
    await asyncio.to_thread(restore, backup, data=data)
    used = [await boot_of_next_start(data) for _ in range(3)]
    if cut_off:
        await write_store(data, rows=3, copy=tmp_path / "killed")
        used.append(used[-1] + 1)
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "killed", data)
    await asyncio.to_thread(restore, backup, replace=True, data=data)
    assert await boot_of_next_start(data) > max(used)


async def test_a_store_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    source, data, backup = tmp_path / "source", tmp_path / "data", tmp_path / "backup"
    await write_store(source)
    make_backup(Settings(data=source), backup)
    data.mkdir()
    (data / "store.db").write_bytes(b"no store" * 1_000)
    await asyncio.to_thread(restore, backup, replace=True, data=data)
    assert await boot_of_next_start(data) > await boot_of_next_start(source)
