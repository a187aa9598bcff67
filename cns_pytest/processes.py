"""The processes that the plugin starts: `cns up` and `cns receiver`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cns_pytest.http import wait_until

STARTS_MAX = 5
EXIT_PORT_IN_USE = 72
RESERVE_BYTES = 1024 * 1024
LOG_CHARS = 4_000
_CHANGED = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH")


class StartFailed(RuntimeError):
    """The process did not become ready; the text has the end of its log."""


class Process:
    """A process, with its output in a file. It can be started again after its end: earlier output is kept."""

    START_S = 120.0
    STOP_S = 45.0

    def __init__(
        self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str], **options: Any
    ) -> None:
        """`environment` is all that it sees; `options` are those of `subprocess.Popen`."""
        self.command = [str(word) for word in command]
        self.log = log
        self.environment = environment
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._earlier_bytes = 0

    @property
    def pid(self) -> int:
        return self._started.pid

    def start(self) -> None:
        """Start the process without waiting until it is ready."""
        if self.is_running():
            raise StartFailed(f"{self.command} runs already")
        if self._process is not None:
            self.wait()
        self._earlier_bytes = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603  # the installed service itself
                self.command,
                stdin=subprocess.PIPE,  # with `--until-input-ends` it ends with this process, however that ends
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(self.environment),
                **self._options,
            )

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """The output of all starts."""
        return self.log.read_text(errors="replace")

    def new_output(self) -> str:
        """The output since the last start."""
        with self.log.open("rb") as log:
            log.seek(self._earlier_bytes)
            return log.read().decode(errors="replace")

    def wait_ready(self, ready: Callable[[], object]) -> int | None:
        """Wait until it is ready. Returns its exit code if it ended instead."""
        if not wait_until(lambda: not self.is_running() or ready(), self.START_S):
            self.stop()
            raise StartFailed(f"not ready within {self.START_S:.0f} s:\n{self.new_output()[-LOG_CHARS:]}")
        return self._started.poll()

    def wait(self) -> int:
        """Wait for its end. Returns the exit code."""
        self._started.communicate(timeout=self.STOP_S)
        return self._started.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        self._started.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL and wait for its end."""
        self._started.kill()
        self.wait()

    def stop(self) -> int:
        """Send SIGTERM, and SIGKILL if that does not end it. Returns the exit code."""
        self.send_signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            return self.wait()

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise StartFailed(f"{self.command} was never started")
        return self._process


def start(
    words: Sequence[str], log: Path, settings: Mapping[str, str], ready: Callable[[str], bool]
) -> tuple[Process, str]:
    """Start a command on a free port of the loopback address; returns it and its URL. `ready` is given the URL."""
    for _ in range(STARTS_MAX):
        port = _free_port()
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-P", "-m", "cns_cli.main", *words, "--until-input-ends", "--port", str(port)]
        process = Process(command, log, _environment(settings))
        process.start()
        code = process.wait_ready(lambda: ready(url))  # noqa: B023  # called within this turn of the loop
        if code is None:
            return process, url
        if code != EXIT_PORT_IN_USE:
            raise StartFailed(f"`cns {words[0]}` ended with {code}:\n{process.new_output()[-LOG_CHARS:]}")
    raise StartFailed(f"no free port in {STARTS_MAX} attempts")


def exports(text: str) -> dict[str, str]:
    """The variables that `export` lines of the output set."""
    lines = [line.removeprefix("export ") for line in text.splitlines() if line.startswith("export ")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The tests' environment without settings of another service and without paths of the project under test."""
    inherited = os.environ  # noqa: TID251  # handed to a process
    kept = {name: value for name, value in inherited.items() if not name.startswith("CNS_") and name not in _CHANGED}
    return {**kept, "CNS_RESERVE_BYTES": str(RESERVE_BYTES), **settings}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
