"""`cns backup` beside traffic, `cns restore`, and both killed at each step."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from cns_common.process.kill_points import (
    BACKUP_COPIED,
    RESTORE_BEGUN,
    RESTORE_CLEARED,
    RESTORE_KEY_PLACED,
    RESTORE_PLACED,
    VARIABLE,
)
from lab.harness import commands
from lab.harness.processes import BIN, plain_environment
from lab.harness.running import Up, cns, own_disk, running
from lab.harness.waiting import PATIENCE_S, wait_until

SENT_BEFORE = 20
KILLED = -9
JUNK = [b"", b"null", b"{}", b'{"aside": "\xff"}', b'{"x":' + b"[" * 9_999 + b"]" * 9_999 + b"}"]


class Sender:
    """Sends messages until it is told to stop. `acknowledged` are those with an answer."""

    def __init__(self, client: Any, url: str) -> None:
        self._client, self._url = client, url
        self.acknowledged: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            body = str(len(self.acknowledged))
            self._client.send_message(QueueUrl=self._url, MessageBody=body)
            self.acknowledged.append(body)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)


def drain(service: Up, name: str) -> set[str]:
    sqs = service.client("sqs")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    found: set[str] = set()
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        found |= {one["Body"] for one in messages}
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str], set[str]]]:
    """A backup made beside traffic, the keys of the service, and what was acknowledged before the backup began."""
    directory = tmp_path_factory.mktemp("backup")
    with running(directory / "data") as service:
        sqs = service.client("sqs")
        url = sqs.create_queue(QueueName="orders")["QueueUrl"]
        with Sender(sqs, url) as sender:
            wait_until(lambda: len(sender.acknowledged) >= SENT_BEFORE)
            before = set(sender.acknowledged)
            done = service.cns("backup", str(directory / "copy"), "--json")
            said = json.loads(done.stdout)
            wait_until(lambda: len(sender.acknowledged) > len(before))
        assert said["manifest"]["files"].keys() == {"store.db", "master.key"}
        again = service.cns("backup", str(directory / "copy"), check=False)
        assert (again.returncode, again.stderr.count("\n")) == (74, 1)
        while_running = service.cns("restore", str(directory / "copy"), "--replace", check=False)
        assert (while_running.returncode, "in use by another cns" in while_running.stderr) == (73, True)
        assert service.cns("check").returncode == 0
        assert service.health()["status"] == "green"  # the commands that read the store made no process restart
        keys = dict(service.environment)
    yield directory / "copy", keys, before


def killed(*words: str | Path, environment: dict[str, str]) -> int:
    """Run the installed program: the order to die is read when a process starts."""
    return subprocess.run(
        [BIN / "cns", *words], env=environment, capture_output=True, check=False, timeout=PATIENCE_S
    ).returncode


def restored(made: tuple[Path, dict[str, str], set[str]], data: Path) -> None:
    """The restored store serves what was acknowledged before the backup, to the keys of then."""
    _, keys, before = made
    with running(data) as service:
        service.environment.update(keys)
        assert before <= drain(service, "orders")


def test_a_backup_beside_traffic_serves_what_was_acknowledged(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path
) -> None:
    cns("restore", made[0], "--data", tmp_path / "data")
    assert cns("check", "--data", tmp_path / "data").returncode == 0
    restored(made, tmp_path / "data")


def test_an_existing_store_is_kept_aside(made: tuple[Path, dict[str, str], set[str]], tmp_path: Path) -> None:
    data = tmp_path / "data"
    cns("account", "create", "--data", data)
    refused = cns("restore", made[0], "--data", data, check=False)
    assert (refused.returncode, "use --replace" in refused.stderr) == (74, True)
    done = cns("restore", made[0], "--data", data, "--replace", "--json")
    aside = Path(json.loads(done.stdout)["aside"])
    assert {path.name for path in aside.iterdir()} >= {"store.db", "master.key"}
    assert cns("check", "--data", data).returncode == 0


def copied(backup: Path, copy: Path) -> Path:
    copy.mkdir()
    for path in backup.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def test_a_file_that_the_manifest_does_not_name_is_not_read(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path
) -> None:
    """SQLite would take a write-ahead log beside the file for a part of it."""
    copy, other = copied(made[0], tmp_path / "copy"), copied(made[0], tmp_path / "other")
    connection = apsw.Connection(str(other / "store.db"))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("UPDATE meta SET high_ms = 1")
    log = (other / "store.db-wal").read_bytes()
    connection.close()
    (copy / "store.db-wal").write_bytes(log)
    cns("restore", copy, "--data", tmp_path / "data")
    (kept,) = apsw.Connection(str(tmp_path / "data" / "store.db")).execute("SELECT high_ms FROM meta").fetchall()
    assert kept > (1,)
    assert (copy / "store.db-wal").read_bytes() == log


@pytest.mark.parametrize("content", [*JUNK, b'{"backup": "x", "aside": "/etc"}'])
def test_a_marker_that_no_restore_wrote_is_one_line(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "restore.json").write_bytes(content)
    refused = commands.run("restore", made[0], "--data", tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (74, 1), refused.stderr
    assert "restore with --replace" in refused.stderr
    assert (tmp_path / "restore.json").read_bytes() == content


@pytest.mark.parametrize(
    "damage", ["store.db", "master.key", "manifest.json", "newer", "no files", "a file elsewhere", *JUNK]
)
def test_a_damaged_or_newer_backup_is_refused(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path, damage: str | bytes
) -> None:
    copy = copied(made[0], tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())
    changes = {
        "newer": {"store_format": 99, "program": "9.0"},
        "no files": {"files": {}},
        "a file elsewhere": {"files": manifest["files"] | {"../copy/master.key": manifest["files"]["master.key"]}},
    }
    if isinstance(damage, bytes):
        (copy / "manifest.json").write_bytes(damage)
    elif damage in changes:
        (copy / "manifest.json").write_text(json.dumps(manifest | changes[damage]))
    else:
        content = bytearray((copy / damage).read_bytes())
        content[len(content) // 2] ^= 0xFF
        (copy / damage).write_bytes(content)
    refused = cns("restore", copy, "--data", tmp_path / "data", check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (74, 1)
    assert not (tmp_path / "data" / "store.db").exists()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(RESTORE_BEGUN, marks=pytest.mark.extended),
        pytest.param(RESTORE_CLEARED, marks=pytest.mark.extended),
        RESTORE_KEY_PLACED,
        pytest.param(RESTORE_PLACED, marks=pytest.mark.extended),
    ],
)
def test_a_restore_that_is_killed_is_completed(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path, point: str
) -> None:
    data = tmp_path / "data"
    cns("account", "create", "--data", data)
    words = ("restore", made[0], "--data", data, "--replace")
    environment = {**plain_environment(), VARIABLE: f"{point}:1:{tmp_path / 'killed'}"}
    assert killed(*words, environment=environment) == KILLED
    assert (tmp_path / "killed").exists()
    start = cns("account", "create", "--data", data, check=False)
    assert (start.returncode, "run `cns restore` again" in start.stderr) == (74, True)
    cns(*words)
    assert {path.name for path in data.iterdir() if "restore" in path.name} == {
        path.name for path in data.glob("before-restore-*")
    }
    assert cns("check", "--data", data).returncode == 0
    if point == RESTORE_KEY_PLACED:
        restored(made, data)


def test_a_backup_that_is_killed_leaves_nothing_of_its_name(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path
) -> None:
    cns("restore", made[0], "--data", tmp_path / "data")
    words = ("backup", tmp_path / "copy", "--data", tmp_path / "data")
    environment = {**plain_environment(), VARIABLE: f"{BACKUP_COPIED}:1:{tmp_path / 'killed'}"}
    assert killed(*words, environment=environment) == KILLED
    assert not (tmp_path / "copy").exists()
    cns(*words)
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"store.db", "master.key", "manifest.json"}
    assert not list(tmp_path.glob(".*partial"))


def test_an_upgrade_backs_up_and_refuses_a_newer_store(tmp_path: Path) -> None:
    data = tmp_path / "data"
    cns("account", "create", "--data", data)
    connection = apsw.Connection(str(data / "store.db"))
    connection.execute("DROP TABLE account_users")
    connection.close()
    done = json.loads(cns("upgrade", "--data", data, "--backup", tmp_path / "before", "--json").stdout)
    assert "account_users.record" in done["added"]
    assert (tmp_path / "before" / "manifest.json").exists()
    connection = apsw.Connection(str(data / "store.db"))
    connection.pragma("user_version", 99)
    connection.close()
    refused = cns("upgrade", "--data", data, check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (74, 1)


@pytest.mark.parametrize("directory", ["/", "n" * 300])
def test_a_directory_that_no_backup_can_have(tmp_path: Path, directory: str) -> None:
    refused = commands.run("backup", directory, "--data", tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (74, 1), refused.stderr


def test_in_a_cluster_it_says_what_to_run(tmp_path: Path) -> None:
    environment = {**plain_environment(), "CNS_STORE": "cassandra"}
    done = commands.run("backup", tmp_path / "copy", environment=environment)
    assert (done.returncode, "nodetool snapshot" in done.stdout) == (2, True)


def test_a_full_disk_is_named_and_keeps_nothing_of_the_restore(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    script = (
        'head -c 1000000 /dev/zero > "$1/filler"; "$2" restore "$3" --data "$1/data"; code=$?; ls "$1/data"; exit $code'
    )
    done = subprocess.run(
        [*own_disk(disk, 1), "sh", "-c", script, "-", disk, BIN / "cns", made[0]],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr.count("\n")) == (79, 1), done.stderr
    assert "No space left on device" in done.stderr
    assert set(done.stdout.split()) == {"lock", "up.lock"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_root_restores_is_the_owners_of_the_directory(
    made: tuple[Path, dict[str, str], set[str]], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, 6059, 6059)
    cns("restore", made[0], "--data", data)
    made_here = [*data.rglob("*")]
    assert {path.stat().st_uid for path in made_here} == {6059}
    assert {path.stat().st_mode & 0o777 for path in made_here if path.is_file()} == {0o600}
    (act,) = [json.loads(line) for line in cns("activity", "--data", data, "--json").stdout.splitlines()]
    assert (act["action"], act["target"], act["result"]) == ("cns:Restore", str(made[0]), "ok")
