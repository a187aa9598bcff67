"""The processes that the plugin starts: `cns up` and `cns receiver`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cns_pytest.http import wait_until

START_S = 120.0
STOP_S = 45.0
STARTS_MAX = 5
EXIT_PORT_IN_USE = 72
RESERVE_BYTES = 1024 * 1024
LOG_CHARS = 4_000
_CHANGED = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH")


class StartFailed(RuntimeError):
    """The process did not become ready; the text has the end of its log."""


class Process:
    """A running command of `cns`, with its output in a file."""

    def __init__(self, words: Sequence[str], log: Path, settings: Mapping[str, str]) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(  # noqa: S603  # the installed service itself
                [sys.executable, "-P", "-m", "cns_cli.main", *words, "--until-input-ends"],
                stdin=subprocess.PIPE,  # it ends with this process, however that ends
                stdout=out,
                stderr=subprocess.STDOUT,
                env=_environment(settings),
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_ready(self, ready: Callable[[], bool]) -> int | None:
        """Wait until it is ready. Returns its exit code if it ended instead."""
        if not wait_until(lambda: self._process.poll() is not None or ready(), START_S):
            self.stop()
            raise StartFailed(f"not ready within {START_S:.0f} s:\n{self.output()[-LOG_CHARS:]}")
        return self._process.poll()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start(
    words: Sequence[str], log: Path, settings: Mapping[str, str], ready: Callable[[str], bool]
) -> tuple[Process, str]:
    """Start a command on a free port of the loopback address; returns it and its URL. `ready` is given the URL."""
    for _ in range(STARTS_MAX):
        port = _free_port()
        url = f"http://127.0.0.1:{port}"
        process = Process([*words, "--port", str(port)], log, settings)
        code = process.wait_ready(lambda: ready(url))  # noqa: B023  # called within this turn of the loop
        if code is None:
            return process, url
        if code != EXIT_PORT_IN_USE:
            raise StartFailed(f"`cns {words[0]}` ended with {code}:\n{process.output()[-LOG_CHARS:]}")
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
