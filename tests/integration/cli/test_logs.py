"""`cns logs`: lines since a time, and with --follow new lines until an interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cns_backend.delivery_logs.record import log_time_text
from cns_backend.delivery_logs.writer import DeliveryLogWriter, LogLimits
from cns_common.clock import Clock
from lab.harness.running import cns
from lab.harness.waiting import PATIENCE_S

CNS = Path(sys.executable).parent / "cns"
TOPIC = "arn:aws:sns:us-east-1:123456789012:orders"
GROUP = "sns/us-east-1/123456789012/orders"
MINUTE_MS = 60_000
COLLECTED_MS = Clock().wall_ms()
"""Some minutes before a test runs."""


def line(name: str, minutes_ago: int = 0) -> bytes:
    timestamp = log_time_text(Clock().wall_ms() - minutes_ago * MINUTE_MS)
    record = {"notification": {"messageId": name, "timestamp": timestamp}, "delivery": {"dwellTimeMs": 1}}
    return json.dumps(record).encode() + b"\n"


@contextmanager
def open_log(data: Path) -> Iterator[DeliveryLogWriter]:
    """A worker's log writer. The lines are written when the context ends."""
    files = DeliveryLogWriter(data / "logs", Clock(), LogLimits(days=7, bytes_max=1 << 30))
    try:
        yield files
    finally:
        files.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with open_log(tmp_path) as files:
        files.append(GROUP, line("c", minutes_ago=1))
        files.append(f"{GROUP}/Failure", line("b", minutes_ago=2))
    with open_log(tmp_path) as files:
        files.append(GROUP, line("a", minutes_ago=90))
        files.append(f"{GROUP}-2", line("z"))
    return tmp_path


def message_ids(output: str) -> list[str]:
    return [json.loads(each)["notification"]["messageId"] for each in output.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([TOPIC], ["a", "b", "c"]),
        ([GROUP], ["a", "b", "c"]),
        ([f"{GROUP}/Failure", "--failures"], ["b"]),
        ([TOPIC, "--since", "1h"], ["b", "c"]),
        ([TOPIC, "--since", "90s"], ["c"]),
        ([TOPIC, "--since", log_time_text(COLLECTED_MS - 60 * MINUTE_MS)], ["b", "c"]),
        ([TOPIC, "--since", "2000-01-01"], ["a", "b", "c"]),
        ([f"{TOPIC}-none"], []),
    ],
)
def test_selected_lines(data: Path, words: list[str], expected: list[str]) -> None:
    result = cns("logs", *words, "--data", data)
    assert message_ids(result.stdout) == expected


def test_a_missing_log_is_reported(tmp_path: Path) -> None:
    for name, code in ((GROUP, 0), (b"sns/\xff", 2)):
        result = cns("logs", os.fsdecode(name), "--data", tmp_path, check=False)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (code, "", 1)


def test_control_characters_of_an_answer_are_escaped(tmp_path: Path) -> None:
    with open_log(tmp_path) as files:
        files.append(GROUP, line("x").replace(b'"dwell', b'"providerResponse": "\xc2\x9b31m", "dwell'))
    result = cns("logs", TOPIC, "--data", tmp_path)
    assert (
        result.stdout.strip().isprintable() and json.loads(result.stdout)["delivery"]["providerResponse"] == "\x9b31m"
    )


def test_following_a_log(data: Path) -> None:
    command = [str(CNS), "logs", TOPIC, "--follow", "--since", "1h", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert message_ids(process.stdout.readline() + process.stdout.readline()) == ["b", "c"]
        with open_log(data) as files:
            files.append(GROUP, line("d"))
        assert message_ids(process.stdout.readline()) == ["d"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
