"""A store of an earlier format: it is backed up before its tables are changed, and a newer one is refused.

`store_format_1.sql` is what cns 0.1.0 left after a stop, without its keys: a queue with three messages, two topics and
a subscription, of a service without authentication.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

import cns as package
from cns_common.clock import Clock
from cns_common.process.kill_points import MIGRATION_BACKED_UP, MIGRATION_TABLES_MADE, VARIABLE
from cns_common.sqlite.format import FORMAT
from lab.harness.processes import BIN, plain_environment
from lab.harness.running import cns, running

DUMP = Path(__file__).with_name("store_format_1.sql")
BODIES = {"first", "second", "third"}
KILLED = -9
OPEN = """
import asyncio, sys
from pathlib import Path
from cns_backend.store_host import StoreHost
from cns_common.configuration.settings import Settings

async def main():
    host = StoreHost(Settings(data=Path(sys.argv[1]), reserve_bytes=0))
    await host.start()
    await host.close()

asyncio.run(main())
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of cns 0.1.0."""
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    connection = apsw.Connection(str(directory / "store.db"))
    connection.execute(DUMP.read_text()).fetchall()
    connection.execute("UPDATE slots SET born_at = ?", (Clock().real_ms(),))  # their retention is days
    connection.close()
    assert query(directory, "PRAGMA user_version") == 1
    return directory


def query(directory: Path, text: str) -> Any:
    connection = apsw.Connection(str(directory / "store.db"))
    try:
        return connection.execute(text).get
    finally:
        connection.close()


def open_once(directory: Path, **more: str) -> int:
    """Start and stop the store host. Returns the exit code."""
    command = [sys.executable, "-c", OPEN, str(directory)]
    return subprocess.run(command, env={**os.environ, **more}, check=False).returncode


def backups(directory: Path) -> list[Path]:
    return sorted((directory / "backups").glob("*"))


def test_what_it_holds_is_served_after_a_backup(data: Path) -> None:
    with running(data, "--auth", "off") as service:
        sqs, sns = (service.client(name, region_name="us-east-1") for name in ("sqs", "sns"))
        url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
        received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        assert {one["Body"] for one in received} == BODIES
        (subscription,) = sns.list_subscriptions()["Subscriptions"]
        assert subscription["Endpoint"].endswith(":orders")
        assert len(sns.list_topics()["Topics"]) == 2
    assert query(data, "PRAGMA user_version") == FORMAT
    assert query(data, "SELECT format, program FROM meta") == (FORMAT, package.__version__)
    (backup,) = backups(data)
    assert json.loads((backup / "manifest.json").read_text())["store_format"] == 1
    assert query(backup, "SELECT count(*) FROM bodies") == len(BODIES)
    with running(data, "--auth", "off"):
        assert backups(data) == [backup]


@pytest.mark.extended
@pytest.mark.parametrize("point", [MIGRATION_BACKED_UP, MIGRATION_TABLES_MADE])
def test_killed_between_backup_and_migration(data: Path, tmp_path: Path, point: str) -> None:
    """However often: one state of the store has one copy."""
    before = query(data, "SELECT sum(length(sql)) FROM sqlite_master")
    boot = query(data, "SELECT boot FROM meta")
    for n in range(2):
        assert open_once(data, **{VARIABLE: f"{point}:1:{tmp_path}/killed-{n}"}) == KILLED
    assert query(data, "PRAGMA user_version") == 1
    tables = query(data, "SELECT sum(length(sql)) FROM sqlite_master")
    assert (tables == before) == (point == MIGRATION_BACKED_UP), "nothing was changed before the backup"
    (backup,) = backups(data)
    written = (backup / "manifest.json").stat().st_mtime_ns
    assert open_once(data) == 0
    assert query(data, "PRAGMA user_version") == FORMAT
    assert query(data, "SELECT count(*) FROM bodies") == len(BODIES)
    assert query(data, "SELECT boot FROM meta") == boot + 1
    assert [path.stat().st_mtime_ns for path in data.glob("backups/*/manifest.json")] == [written], "it is found"


def test_without_room_for_the_backup_nothing_is_changed(data: Path) -> None:
    (data / "backups").touch()
    refused = cns("up", "--data", data, "--port", "0", check=False)
    assert refused.returncode == 74
    assert "is of format 1, this program's is 2, and it cannot be backed up" in refused.stderr
    assert "`cns upgrade --backup DIRECTORY`" in refused.stderr
    assert query(data, "PRAGMA user_version") == 1
    upgraded = cns("upgrade", "--data", data, "--backup", data.parent / "elsewhere", "--json")
    assert json.loads(upgraded.stdout)["from"] == 1
    assert query(data, "PRAGMA user_version") == FORMAT
    assert (data.parent / "elsewhere" / "manifest.json").exists()


def test_other_commands_refuse_it(data: Path) -> None:
    for words in (("outbox", "list"), ("quarantine", "list")):
        refused = cns(*words, "--data", data, check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (74, 1)
        assert "is of format 1, this program's is 2: start the service, or run `cns upgrade`" in refused.stderr
    assert query(data, "PRAGMA user_version") == 1


def test_a_newer_store_is_refused_by_the_versions(data: Path) -> None:
    assert open_once(data) == 0
    connection = apsw.Connection(str(data / "store.db"))
    connection.execute("UPDATE meta SET format = 99, program = '9.9.9'; PRAGMA user_version = 99").fetchall()
    connection.close()
    for words in (("up", "--port", "0"), ("upgrade",), ("outbox", "list")):
        refused = cns(*words, "--data", data, check=False)
        assert refused.returncode == 74, words
        assert "is of format 99, written by cns 9.9.9; this program reads up to format 2" in refused.stderr, words


@pytest.mark.extended
def test_an_upgrade_that_is_killed_finds_its_backup(data: Path, tmp_path: Path) -> None:
    for n in range(2):
        environment = {**plain_environment(), VARIABLE: f"{MIGRATION_TABLES_MADE}:1:{tmp_path}/killed-{n}"}
        done = subprocess.run(
            [BIN / "cns", "upgrade", "--data", data],
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == KILLED
    cns("upgrade", "--data", data)
    assert (len(backups(data)), query(data, "PRAGMA user_version")) == (1, FORMAT)
