"""Each process of a running service is restarted in turn, under load with long polls open."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from cns_common.process.supervisor import LOOP_CRASHES
from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.acceptance.rolling import Load

API_PROCESSES = 2


def restart(service: Up, name: str, number: signal.Signals = signal.SIGTERM) -> None:
    """End one process, in order by default; the supervisor starts it again."""
    before = pid_of(service, name)
    assert before, f"{name} does not run"
    os.kill(before, number)
    wait_until(lambda: pid_of(service, name) not in (0, before) and not Path(f"/proc/{before}").exists())


def pid_of(service: Up, name: str) -> int:
    """0 when the connection is cut: it was accepted by the process that stops."""
    try:
        return service.pids().get(name, 0)
    except OSError:
        return 0


def test_a_process_that_is_told_to_stop_for_good_refuses_new_callers_and_answers_others(tmp_path: Path) -> None:
    """Its port is closed while a call is in progress."""
    with running(tmp_path / "data") as service:
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{")
            wait_until(lambda: service.client("sqs").list_queues())
            service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not connects(host, int(port)))
            slow.sendall(b"}")
            assert slow.recv(12) == b"HTTP/1.1 400"
        assert service.process.wait() == 0


def connects(host: str, port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((host, port)) == 0


@pytest.mark.extended
def test_processes_are_restarted_one_by_one_and_all_by_new_code_and_no_call_fails(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--api", f"{API_PROCESSES}") as service:
        queue = service.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        with Load(service, queue) as load:
            load.goes_on()
            for name in ("api-1", "worker", "api-2"):
                restart(service, name)
                wait_until(service.is_ready)
                load.goes_on()
            for _ in range(LOOP_CRASHES):
                restart(service, "worker", signal.SIGKILL)
            before = service.pids()
            said = service.cns("restart").stdout  # whatever the old processes did
            assert before.keys() == service.pids().keys() and not {*before.values()} & {*service.pids().values()}
            assert said.splitlines() == [f"{name}: process {pid}" for name, pid in service.pids().items()]
            load.goes_on()
            upgraded = service.cns("upgrade", "--json")
            assert (
                "cns: copied and verified in " in upgraded.stderr and "callers wait about a second" in upgraded.stderr
            )
            (facts,) = map(json.loads, upgraded.stdout.splitlines())
            assert (facts["from"], facts["added"]) == (facts["to"], [])
            assert Path(facts["backup"], "manifest.json").exists()
            load.goes_on()
            assert service.process.is_running(), "the same process supervises"
