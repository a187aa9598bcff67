"""Runs a server program, ours or another's, for a measurement: its address, credentials, and what it uses."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cns_pytest.http import fetch
from lab.harness import usage
from lab.harness.ports import free_port
from lab.harness.processes import ANNOUNCEMENT, HOST, METRICS_TOKEN, ROOT, Process, credentials_in, is_open
from lab.harness.service import OBSERVER, Samples, read_samples, total
from lab.harness.signing import Credentials

METRICS_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    name: str
    port: int
    pid: int
    credentials: Credentials
    data: Path
    query: bool = False
    """Whether it knows queues by the Query protocol only."""

    async def samples(self) -> Samples:
        """The current metrics."""
        url = f"http://{HOST}:{self.port}/metrics"
        _, page = await asyncio.to_thread(fetch, url, headers=OBSERVER, timeout_s=METRICS_S)
        return read_samples(page.decode())

    async def metric_total(self, name: str) -> int:
        """The sum of a metric over all processes and labels."""
        return int(total(await self.samples(), f"cns_{name}"))

    def processes(self) -> list[int]:
        """The ids of the server's process and all its descendants."""
        return usage.tree(self.pid)

    def cpu_s(self) -> float:
        return sum(map(usage.cpu_s, self.processes()))

    def written_bytes(self) -> int:
        return sum(map(usage.written_bytes, self.processes()))

    def resident_bytes(self) -> int:
        return sum(map(usage.resident_bytes, self.processes()))

    def pss_bytes(self) -> int:
        return sum(map(usage.pss_bytes, self.processes()))


@contextmanager
def running(
    name: str, command: Sequence[str], data: Path, environment: Mapping[str, str] | None = None, *, listeners: int = 1
) -> Iterator[Server]:
    """Run a server within the block. `command` may contain {port} and {data}; waits for `listeners` listening
    processes."""
    port = free_port()
    data.mkdir(parents=True, exist_ok=True)
    words = [word.format(port=port, data=data.absolute() / "store") for word in command]
    variables = {**os.environ, "CNS_METRICS_TOKEN": METRICS_TOKEN, **(environment or {})}
    process = Process(words, data / "output.txt", variables, name=name, port=port, cwd=ROOT)
    process.start()
    try:
        process.wait_until(lambda: is_open(port))
        process.wait_until(lambda: listeners == 1 or len(usage.listeners(port)) >= listeners)
        if "up" in command:
            process.wait_printed(ANNOUNCEMENT)  # `cns up` prints its keys when it listens already
        credentials = credentials_in(process.new_output())
        yield Server(name=name, port=port, pid=process.pid, credentials=credentials, data=data)
    finally:
        process.stop()


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, "--port", "{port}", "--data", "{data}", *arguments]
