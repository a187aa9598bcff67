"""Commands whose arguments or input are no text, and whose output cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.harness.processes import BIN
from lab.harness.service import REGION, Service
from lab.harness.waiting import PATIENCE_S

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def cns_queue(service: Service) -> Run:
    """Runs `cns queue …` by the installed program, as bytes."""

    def run(
        *words: str | bytes, text: bytes = b"", out: Any = subprocess.PIPE, **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        own = {"AWS_ENDPOINT_URL": service.url, "AWS_REGION": REGION}
        return subprocess.run(
            [BIN / "cns", "queue", *words],
            input=text,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**os.environ, **service.environment, **own, **more},
            check=False,
            timeout=PATIENCE_S,
        )

    return run


@pytest.mark.parametrize("words", [(b"send", b"orders", b"\xff"), (b"show", b"\xff")])
def test_arguments_that_are_no_text(cns_queue: Run, words: tuple[bytes, ...]) -> None:
    refused = cns_queue(*words)
    assert (refused.returncode, b"is not text in UTF-8" in refused.stderr) == (2, True)


def test_lines_that_are_no_text(cns_queue: Run) -> None:
    refused = cns_queue("send", "orders", "-", text=b"\xff\n")
    assert (refused.returncode, refused.stderr) == (2, b"cns: standard input is not text in UTF-8\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_message_that_cannot_be_printed_is_kept(cns_queue: Run, sqs: Any, queue: str, unbuffered: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="kept")
    words = ("receive", queue.rpartition("/")[2], "--ack", "--lease", "0")
    with open("/dev/full", "wb") as full:
        refused = cns_queue(*words, out=full, PYTHONUNBUFFERED=unbuffered)
    assert (refused.returncode, refused.stderr) == (74, b"cns: cannot write: No space left on device\n")
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "kept"


def test_characters_that_the_terminal_lacks(cns_queue: Run, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="é 😀")
    name = queue.rpartition("/")[2]
    assert rb"\xe9 \U0001f600" in cns_queue("peek", name, PYTHONIOENCODING="ascii").stdout
    shown = cns_queue("peek", name, "--json", PYTHONIOENCODING="ascii").stdout
    assert json.loads(shown.decode("ascii"))["body"] == "é 😀"


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "it cannot be read: No such file or directory"), ("-", "this is no PEM file of certificates")],
)
def test_authorities_that_cannot_be_read(cns_queue: Run, tmp_path: Path, text: str | None, said: str) -> None:
    trusted = tmp_path / "authorities.pem"
    if text:
        trusted.write_text(text)
    refused = cns_queue("list", SSL_CERT_FILE=str(trusted))
    assert (refused.returncode, refused.stderr.decode()) == (71, f"cns: SSL_CERT_FILE={trusted}: {said}\n")
