"""`cns compact`: the room of deleted messages goes back to the disk, and the messages that are left stay."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import apsw
import pytest

from cns_cli.store import compact
from cns_common.data_directory import EXIT_DATA_FULL
from cns_common.errors import StartError
from cns_common.sqlite.wal import FRAME_HEADER_BYTES, HEADER_BYTES
from lab.harness.processes import BIN, plain_environment
from lab.harness.running import cns, own_disk, running
from tests.acceptance.cli.test_backup import drain
from tests.integration.storage.test_store_opening import FRAME_BYTES, commits_in, flip_byte, write_store

BODY = "x" * 200_000
PURGED = 60
UNUSED_MIN = 10_000_000


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The data directory of a service whose messages were deleted, and its keys."""
    data = tmp_path_factory.mktemp("compact") / "data"
    with running(data) as service:
        sqs = service.client("sqs")
        url, kept = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("purged", "kept"))
        sqs.send_message(QueueUrl=kept, MessageBody="kept")
        for _ in range(PURGED):
            sqs.send_message(QueueUrl=url, MessageBody=BODY)
        received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        while received:
            for one in received:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
            received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        refused = service.cns("compact", check=False)
        assert (refused.returncode, "in use by another cns" in refused.stderr) == (73, True)
        keys = dict(service.environment)
    return data, keys


@pytest.mark.extended
def test_a_disk_without_the_room_is_refused_first(used: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    script = (
        'cp -a "$3" "$1/data" && free=$(($(stat -f -c "%a * %S" "$1") - 65536)) &&'
        ' head -c $free /dev/zero > "$1/filler";'
        ' before=$(cksum < "$1/data/store.db"); "$2" compact --data "$1/data"; code=$?;'
        ' [ "$before" = "$(cksum < "$1/data/store.db")" ] && ls "$1/data"; exit $code'
    )
    done = subprocess.run(
        [*own_disk(tmp_path / "disk", 40), "sh", "-c", script, "-", tmp_path / "disk", BIN / "cns", used[0]],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (79, 1), done.stderr
    assert "bytes meanwhile, and the disk has" in done.stderr
    assert "store.db" in done.stdout.split()


@pytest.mark.extended
def test_the_room_is_given_back_and_said_before(used: tuple[Path, dict[str, str]]) -> None:
    data, keys = used
    said = [one for one in findings(data) if one["check"] == "room"]
    assert (len(said), said[0]["level"]) == (1, "ok")
    unused = int(said[0]["text"].split()[0].replace(",", ""))
    assert unused > UNUSED_MIN
    size = (data / "store.db").stat().st_size
    done = cns("compact", "--data", data, "--json")
    assert f"{unused:,} bytes of" in done.stderr
    facts = json.loads(done.stdout)
    assert facts["bytesBefore"] == size
    assert facts["bytesAfter"] == (data / "store.db").stat().st_size <= size - unused
    assert not list(data.glob("store.db-*"))
    assert cns("check", "--data", data).returncode == 0
    with running(data) as service:
        service.environment.update(keys)
        assert drain(service, "kept") == {"kept"}
    again = json.loads(cns("compact", "--data", data, "--json").stdout)
    assert again["bytesBefore"] - again["bytesAfter"] < UNUSED_MIN
    (room,) = [one for one in findings(data) if one["check"] == "room"]
    assert room["text"].startswith("0 of ")
    assert "cns compact" not in room["text"]


async def test_the_log_of_a_crash_is_part_of_it(tmp_path: Path) -> None:
    """Commits behind a damaged frame are reported before the log goes."""
    data = tmp_path / "crashed"
    await write_store(tmp_path / "data", 10, data)
    log = data / "store.db-wal"
    size = sum(one.stat().st_size for one in (data / "store.db", log))
    last = commits_in(log.read_bytes())[-2] + 1
    flip_byte(log, HEADER_BYTES + last * FRAME_BYTES + FRAME_HEADER_BYTES + 100)
    done = cns("compact", "--data", data, "--json")
    (said,) = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert (said["event"], said["commits_missing"]) == ("store.wal_truncated", 1)
    facts = json.loads(done.stdout)
    assert (facts["bytesBefore"], facts["bytesAfter"]) == (size, (data / "store.db").stat().st_size)


async def test_a_quota_that_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite names it another error than that of a full disk."""

    class Connection(apsw.Connection):
        system_errno = errno.EDQUOT

    class WriteError(apsw.IOError):
        extendedresult = apsw.SQLITE_IOERR_WRITE

    def vacuum(connection: apsw.Connection, directory: str) -> None:
        raise WriteError("disk I/O error")

    await write_store(tmp_path)
    monkeypatch.setattr(compact, "connect", lambda path, _: Connection(path))
    monkeypatch.setattr(compact, "_compact", vacuum)
    with pytest.raises(StartError, match="the disk is full; nothing was changed") as refused:
        compact.compact(tmp_path)
    assert refused.value.exit_code == EXIT_DATA_FULL


def findings(data: Path) -> list[dict[str, str]]:
    done = cns("doctor", "--data", data, "--json", "--url", "http://127.0.0.1:1", check=False)
    found: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    return found
