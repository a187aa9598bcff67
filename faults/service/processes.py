"""The service under fault: its processes, what is set up in it once, and how it is killed, watched and stopped."""

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.load.signing import Credentials
from cns_common.process.kill_points import VARIABLE
from cns_common.process.supervisor import read_status
from faults.accounting.failing_endpoints import DELIVERY_TIMEOUT_S
from faults.service.wire import HOST, NotSent, OutcomeOpen, Wire
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
READY_TIMEOUT_S = 45.0
STOP_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.02

_EXPORT = re.compile(r"export (AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY)=(\S+)")


class ProcessError(Exception):
    """The service did not do what a round needs to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillOrder:
    """Die at a named point, when it is passed for the `count`-th time."""

    point: str
    count: int
    latch: Path  # exists once it happened

    def __str__(self) -> str:
        return f"{self.point}:{self.count}:{self.latch}"


class Service:
    """`cns up` on one data directory; use it within `running`."""

    def __init__(self, port: int, data: Path, process: subprocess.Popen[bytes], said: Path) -> None:
        self.port = port
        self.data = data
        self._process = process
        self._said = said

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def credentials(self) -> Credentials:
        """What the first start printed."""
        keys = dict(_EXPORT.findall(self.said))
        return Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])

    def pids(self) -> dict[str, int]:
        return {status.name: status.pid for status in read_status(self.data / "processes.json")}

    def restarts(self) -> dict[str, int]:
        return {status.name: status.restarts for status in read_status(self.data / "processes.json")}

    def kill(self, name: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pids()[name], signal.SIGKILL)

    async def ready(self, restarts: dict[str, int]) -> None:
        """Wait until every process was restarted so often, the API answers, and a worker of now has reported."""
        wire = Wire(self.port, Credentials(key_id="", secret=""))
        until_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < until_s and self._process.poll() is None:
            if self.restarts() == restarts and await _answers(wire):
                wire.close()
                return
            await asyncio.sleep(POLL_INTERVAL_S)
        raise ProcessError(f"the service is not ready, restarts {self.restarts()}; it said:\n{self.said[-3000:]}")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


async def _answers(wire: Wire) -> bool:
    try:
        await wire.get("/ready")
    except (NotSent, OutcomeOpen):
        return False
    return True


@contextmanager
def running(port: int, data: Path, order: KillOrder | None = None) -> Iterator[Service]:
    """The service for as long as the block lasts; then it is asked to stop, and its data is at rest."""
    data.mkdir(parents=True, exist_ok=True)
    said = data.with_suffix(".said")
    environment = os.environ | {"CNS_DELIVERY_TIMEOUT_S": str(DELIVERY_TIMEOUT_S)}
    environment |= {VARIABLE: str(order)} if order else {}
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "cns_cli.main", "up", "--port", str(port), "--data", str(data), "--test-clock"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Service(port, data, process, said)
    finally:
        _stop(process)


@contextmanager
def receiving(port: int, journal: Path) -> Iterator[None]:
    """`cns receiver`, where HTTP notifications arrive."""
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
    """What a stopped service left, without what belongs to its processes."""
    shutil.copytree(data, to, ignore=shutil.ignore_patterns("*.socket", "lock", "processes.json"))


def _wait_listening(process: subprocess.Popen[bytes], port: int) -> None:
    wait_until(lambda: process.poll() is not None or _is_open(port), READY_TIMEOUT_S)
    if process.poll() is not None:
        raise ProcessError("the receiver ended before it listened")


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
        raise ProcessError("a process did not stop when asked to") from None
