"""`cns status`, `cns top`, `cns version`, `cns completion`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import cns as package
from lab.harness import commands
from lab.harness.processes import BIN, plain_environment
from lab.harness.running import Up, cns, running
from lab.harness.waiting import PATIENCE_S
from tests.acceptance.cli.command_runs import run


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Its own service, whose whole content is known."""
    with running(tmp_path_factory.mktemp("overview") / "data") as started:
        sqs, sns = started.client("sqs"), started.client("sns")
        for name, messages in (("deep", 3), ("empty", 0)):
            url = sqs.create_queue(QueueName=name)["QueueUrl"]
            for number in range(messages):
                sqs.send_message(QueueUrl=url, MessageBody=str(number))
        topic = sns.create_topic(Name="news")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="email", Endpoint="a@example.com")
        yield started


def test_status(service: Up) -> None:
    done = run(service, "status", "--data", service.data, "--json", "-n", "1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["form"], found["version"], found["health"]["status"]) == ("embedded", package.__version__, "green")
    contents = found["contents"]
    assert (contents["queues"], contents["messages"], contents["topics"], contents["unconfirmed"]) == (2, 3, 1, 1)
    assert [one["arn"].rpartition(":")[2] for one in contents["deepest"]] == ["deep"]
    assert (found["openBreakers"], found["quarantined"]) == (0, 0)
    lines = run(service, "status", "--data", service.data).stdout.splitlines()
    assert lines[0] == f"service     {service.url}, embedded form, version {package.__version__}, green"
    assert [line for line in lines if line.startswith("process     api (pid")]


def test_status_of_a_service_of_the_other_form_reads_no_store(service: Up) -> None:
    other = {"CNS_STORE": "cassandra", "CNS_CASSANDRA": "127.0.0.1:1", "CNS_PORT": service.url.rpartition(":")[2]}
    done = run(service, "status", "--data", service.data, **other)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert "embedded form, but CNS_STORE is cassandra here" in done.stderr and "queues" not in done.stdout


def test_status_without_a_service(tmp_path: Path) -> None:
    cns("account", "create", "--data", tmp_path / "data")
    environment = {**plain_environment(), "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    words = ("status", "--url", "http://127.0.0.1:1", "--data", tmp_path / "data")
    done = commands.run(*words, environment=environment)
    assert (done.returncode, done.stderr.count("\n")) == (69, 1)
    assert "not running" in done.stdout and "queues      0, with 0 messages" in done.stdout


def test_top_prints_plain_lines_once(service: Up) -> None:
    words = ("top", "--once", "--interval", "0.1", "--data", service.data)
    lines = run(service, *words).stdout.splitlines()
    assert lines[0].startswith(f"{service.url} is green")
    assert "deep" in run(service, *words).stdout
    view = json.loads(run(service, *words, "--json").stdout)
    assert {one["queue"].rpartition(":")[2] for one in view["queues"]} >= {"deep"}
    away = run(service, *words, "--url", "http://127.0.0.1:1")
    assert (away.returncode, away.stderr.count("\n")) == (69, 1)


def test_top_once_leaves_what_was_typed_to_the_shell(service: Up) -> None:
    terminal, keyboard = pty.openpty()
    os.write(terminal, b"queue\n")
    words = ("top", "--once", "--interval", "0.1", "--url", service.url, "--data", str(service.data))
    done = subprocess.run(
        [BIN / "cns", *words], stdin=keyboard, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout.startswith(f"{service.url} is green")) == (0, True), done.stderr
    assert os.read(keyboard, 100) == b"queue\n"
    os.close(keyboard)
    os.close(terminal)


def test_q_ends_the_live_view(service: Up) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({**service.environment, "AWS_ENDPOINT_URL": service.url, "TERM": "xterm", "NO_COLOR": "1"})
        os.execv(BIN / "cns", ["cns", "top", "--url", service.url, "--data", str(service.data), "--interval", "0.1"])
    seen = b""
    while b"deep" not in seen:
        seen += os.read(terminal, 65_536)
    os.write(terminal, b"q")
    try:
        while os.read(terminal, 65_536):
            pass
    except OSError:  # the other end of the terminal is closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    assert b"\x1b[36" not in seen and b"\x1b[1;36" not in seen  # NO_COLOR is set


def test_version() -> None:
    assert json.loads(cns("version", "--json").stdout)["cns"] == package.__version__
    assert cns("version").stdout.startswith(f"cns         {package.__version__}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    script = cns("completion", shell).stdout
    assert "_CNS_COMPLETE" in script
    if shell == "bash":
        asking = "COMP_WORDS=(cns queue re) COMP_CWORD=2; _cns_completion cns; printf '%s\\n' \"${COMPREPLY[@]}\""
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
        words = ["bash", "-c", f"{script}\n{asking}"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert sorted(done.stdout.split()) == ["receive", "redrive"], done.stderr
