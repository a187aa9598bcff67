"""Commands in a directory where there is no store, and `cns check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.harness import commands
from lab.harness.running import cns

MESSAGE_ID = "6a8c3322-3458-468a-ba36-83c9331c6f05"
EXIT_DATA_UNUSABLE = 74
TOPIC = "arn:aws:sns:us-east-1:111111111111:orders"


@pytest.mark.parametrize(
    "words",
    [
        ("account", "list"),
        ("account", "show", "111111111111"),
        ("account", "rotate", "111111111111"),
        ("outbox", "list"),
        ("outbox", "show", "1"),
        ("quarantine", "list"),
        ("pool", "list"),
        ("sms", "opt-out", "+15005550001"),
        ("explain", MESSAGE_ID),
        ("logs", TOPIC),
        ("activity",),
        ("pipeline", "report"),
        ("check",),
    ],
)
def test_a_command_that_reads_says_where_it_looked_and_makes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = commands.run(*words, cwd=tmp_path)
    assert done.returncode not in (0, 1), done.stdout
    assert list(tmp_path.iterdir()) == [], done.stderr
    if words[0] != "pipeline":  # without PySpark, `cns pipeline` reports just that
        (line,) = done.stderr.splitlines()
        assert done.returncode == EXIT_DATA_UNUSABLE
        assert str(tmp_path / "data") in line


def test_check(tmp_path: Path) -> None:
    data = tmp_path / "data"
    cns("account", "create", "--data", data)
    done = cns("check", "--data", data)
    assert f"no damage found in {data}/store.db" in done.stdout
    with (data / "store.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    done = cns("check", "--data", data, check=False)
    assert done.returncode == 1, done.stderr
    assert f"cns: {data}/store.db is damaged" in done.stderr
    assert done.stdout
