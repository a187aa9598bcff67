"""Processes of the service and of what it needs: start, wait, stop and kill them, and read what they print."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cns_pytest import processes
from cns_pytest.processes import exports
from lab.harness.signing import Credentials
from lab.harness.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
HOST = "127.0.0.1"
ANNOUNCEMENT = "cns: SNS and SQS on "
"""`cns up` and `cns api` print it when they listen."""
RESERVE_BYTES = 1024 * 1024
"""Size of each service's disk reserve: pytest keeps the directories of hundreds."""
METRICS_TOKEN = "the-token-of-the-tests"
"""CNS_METRICS_TOKEN of all services that are started here."""


class Process(processes.Process):
    """A process of a test or a measurement. `port` is the one that it listens on, if any."""

    START_S = STOP_S = PATIENCE_S

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str],
        *,
        name: str = "",
        port: int = 0,
        **options: Any,
    ) -> None:
        """`environment` is all that it sees; `options` are those of `subprocess.Popen`."""
        super().__init__(command, log, environment, **options)
        self.name = name or self.command[0]
        self.port = port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds. Fails if the process ends before."""
        wait_until(lambda: not self.is_running() or condition(), self.new_output)
        assert self.is_running(), self.new_output()

    def wait_printed(self, text: str) -> None:
        """Wait until the output since the last start contains `text`."""
        self.wait_until(lambda: text in self.new_output())

    def events(self, event: str, **members: object) -> list[dict[str, Any]]:
        """The log events since the last start with this name and these members."""
        return log_events(self.new_output(), event, **members)


def is_open(port: int) -> bool:
    """Whether something listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def log_events(output: str, event: str, **members: object) -> list[dict[str, Any]]:
    """The log events of an output with this name and these members."""
    logged = [json.loads(line) for line in output.splitlines() if line.startswith('{"')]
    wanted = {"event": event, **members}
    return [entry for entry in logged if wanted.items() <= entry.items()]


def stop_all(started: Sequence[Process]) -> list[int]:
    """Stop all of them at once. Returns their exit codes."""
    for process in started:
        process.send_signal(signal.SIGTERM)
    return [process.wait() for process in started]


def plain_environment(**settings: str) -> dict[str, str]:
    """The environment of a shell in which Python keeps compiled modules, with these settings."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"CNS_RESERVE_BYTES": str(RESERVE_BYTES), "CNS_METRICS_TOKEN": METRICS_TOKEN, **kept, **settings}


def keys_in(output: str) -> dict[str, str]:
    """The options of `Service.client` for the account whose exports these are."""
    variables = exports(output)
    return {"key": variables["AWS_ACCESS_KEY_ID"], "secret": variables["AWS_SECRET_ACCESS_KEY"]}


def credentials_in(output: str) -> Credentials:
    """The keys of the account whose exports these are; dummy ones of a server that knows no accounts."""
    variables = exports(output)
    return Credentials(
        key_id=variables.get("AWS_ACCESS_KEY_ID", "AKIAFLOOR"), secret=variables.get("AWS_SECRET_ACCESS_KEY", "floor")
    )
