"""The processes of the service under fault: starting, killing, watching and stopping them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cns_common.process.kill_points import VARIABLE
from cns_common.process.supervisor import read_status
from lab.faults.accounting.failing_endpoints import DELIVERY_TIMEOUT_S
from lab.faults.service.wire import HOST, NotSent, OutcomeUnknown, Wire
from lab.harness.signing import Credentials
from lab.harness.waiting import wait_until

ROOT = Path(__file__).parents[3]
READY_TIMEOUT_S = 45.0
STOP_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.02

_EXPORT = re.compile(r"export (AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY)=(\S+)")


class SiteError(Exception):
    """The service did not start or stop as a round needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillOrder:
    """An order to die at a named kill point, when it is passed for the `count`-th time."""

    point: str
    count: int
    latch: Path  # the process makes this file before it dies

    def __str__(self) -> str:
        return f"{self.point}:{self.count}:{self.latch}"


class Service:
    """`cns up` on one data directory; use it within `running`."""

    def __init__(self, port: int, data: Path, process: subprocess.Popen[bytes], output: Path) -> None:
        self.port = port
        self.data = data
        self._process = process
        self._output = output

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def credentials(self) -> Credentials:
        """The keys that the first start printed."""
        keys = dict(_EXPORT.findall(self.output))
        return Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])

    def pids(self) -> dict[str, int]:
        return {status.name: status.pid for status in read_status(self.data / "processes.json")}

    def restarts(self) -> dict[str, int]:
        return {status.name: status.restarts for status in read_status(self.data / "processes.json")}

    def kill(self, name: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pids()[name], signal.SIGKILL)

    async def ready(self, restarts: dict[str, int]) -> None:
        """Wait until the numbers of restarts are `restarts`, the API answers, and a running worker has reported."""
        wire = Wire(self.port, Credentials(key_id="", secret=""))
        until_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < until_s and self._process.poll() is None:
            if self.restarts() == restarts and await _answers(wire):
                wire.close()
                return
            await asyncio.sleep(POLL_INTERVAL_S)
        raise SiteError(f"the service is not ready, restarts {self.restarts()}; its output:\n{self.output[-3000:]}")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


async def _answers(wire: Wire) -> bool:
    try:
        await wire.get("/ready")
    except (NotSent, OutcomeUnknown):
        return False
    return True


@contextmanager
def running(
    port: int,
    data: Path,
    order: KillOrder | None = None,
    options: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Iterator[Service]:
    """Run the service within the block; at its end stop the service, so that its data can be copied."""
    data.mkdir(parents=True, exist_ok=True)
    output = data.with_suffix(".output")
    environment = {**os.environ, "CNS_DELIVERY_TIMEOUT_S": str(DELIVERY_TIMEOUT_S), **(settings or {})}
    environment |= {VARIABLE: str(order)} if order else {}
    with output.open("wb") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "cns_cli.main",
                "up",
                "--port",
                str(port),
                "--data",
                str(data),
                "--test-clock",
                *options,
            ],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Service(port, data, process, output)
    finally:
        _stop(process)


@contextmanager
def receiving(port: int, journal: Path) -> Iterator[None]:
    """Run `cns receiver`, the endpoint of HTTP notifications."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cns_cli.main", "receiver", "--port", str(port), "--journal", str(journal)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_listening(process, port)
        yield
    finally:
        _stop(process)


def copy(data: Path, to: Path) -> None:
    """Copy the data directory of a stopped service, without the files of its processes."""
    shutil.copytree(data, to, ignore=shutil.ignore_patterns("*.socket", "lock", "processes.json"))


def _wait_listening(process: subprocess.Popen[bytes], port: int) -> None:
    wait_until(lambda: process.poll() is not None or _is_open(port), READY_TIMEOUT_S)
    if process.poll() is not None:
        raise SiteError("the receiver ended before it listened")


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise SiteError("a process did not stop when asked to") from None
