"""Each process of a running service is restarted in turn, under load with long polls open."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.acceptance.rolling import Load
from tests.acceptance.running import Up, running
from tests.waiting import wait_until

RESTART_S = 40.0
API_PROCESSES = 2


def restart(service: Up, name: str) -> None:
    """Stop one process in order; the supervisor starts it again."""
    before = pid_of(service, name)
    assert before, f"{name} does not run"
    os.kill(before, signal.SIGTERM)
    wait_until(lambda: pid_of(service, name) not in (0, before) and not Path(f"/proc/{before}").exists(), RESTART_S)


def pid_of(service: Up, name: str) -> int:
    """0 when the connection is cut: it was accepted by the process that stops."""
    try:
        return service.pids().get(name, 0)
    except OSError:
        return 0


def test_processes_are_restarted_one_by_one_and_all_by_new_code_and_no_call_fails(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--api", f"{API_PROCESSES}") as service:
        queue = service.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        with Load(service, queue) as load:
            load.goes_on()
            for name in ("api-1", "worker", "api-2"):
                restart(service, name)
                wait_until(service.is_ready, RESTART_S)
                load.goes_on()
            before = service.pids()
            said = service.cns("restart").stdout
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
            assert service.process.poll() is None, "the same process supervises"
