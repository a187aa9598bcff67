"""`cns up` on sockets that systemd passes to it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from lab.harness.parts import need
from lab.harness.ports import free_port
from lab.harness.running import Up, start
from lab.harness.waiting import wait_until
from tests.acceptance.up.test_up import EXIT_ADDRESS_UNUSABLE


def passed(port: int, *, name: str = "service") -> list[str]:
    """The words before a command that run it at the first connection, with a socket of this name and port."""
    need("systemd")
    kept = [word for variable in os.environ for word in ("-E", variable)]
    ours = [word for variable in ("CNS_RESERVE_BYTES", "CNS_METRICS_TOKEN") for word in ("-E", variable)]
    return ["systemd-socket-activate", *kept, *ours, "-l", f"127.0.0.1:{port}", f"--fdname={name}"]


def test_it_serves_on_a_passed_socket_also_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    service = start(tmp_path / "data", port=port, runner=passed(port))
    try:
        connects(service, port)
        service.wait_ready()
        assert service.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        before = {*service.pids().values()}
        service.cns("restart")
        assert service.client("sqs").list_queues()["QueueUrls"]
        assert not before & {*service.pids().values()}
    finally:
        service.stop()


def connects(service: Up, port: int) -> None:
    """Callers begin to connect before it listens."""

    def connected() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    wait_until(connected, service.said)


def test_a_passed_socket_that_the_settings_do_not_name(tmp_path: Path) -> None:
    port, other = free_port(), free_port()
    for name, its_port, words in (
        ("service", other, (f"{other}", f"{port}", "settings")),
        ("admin", port, ("'admin'", "CNS_ADMIN_BIND")),
    ):
        service = start(tmp_path / "data", port=port, runner=passed(its_port, name=name))
        connects(service, its_port)
        assert service.process.wait() == EXIT_ADDRESS_UNUSABLE, service.said()
        line = service.said().splitlines()[-1]
        assert line.startswith("cns: systemd passes ") and all(word in line for word in words), line
        assert not (tmp_path / "data").exists()
