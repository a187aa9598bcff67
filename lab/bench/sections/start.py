"""The time from the start of `cns up` to its first answer, on new data and after `kill -9`, and the memory of all
processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import uvloop

from lab.bench.sections.queues import CONNECTIONS
from lab.bench.servers import service
from lab.bench.tables import MISSED, table
from lab.harness.ports import free_port
from lab.harness.processes import BIN, HOST, Process, credentials_in, plain_environment
from lab.harness.server import Server
from lab.load.polls import BYTES_PER_MIB
from lab.load.queues import open_client
from lab.load.workloads import send_batches

REFERENCE = "import fastapi, uvicorn, apsw, msgspec"
RATIO_MAX = 1.5
"""The bar: a start by the time of importing the libraries that a least service would take."""
STARTS = 9
DEPTHS = (100_000, 1_000_000)


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    reference: list[float] = []
    figures = {"new data": [_start_s(scratch / f"new-{number}", reference) for number in range(STARTS)]}
    for depth in DEPTHS:
        data = scratch / f"filled-{depth}"
        with _answering(data) as server:
            uvloop.run(_fill(server, depth, seed))
        figures[f"after `kill -9`, {depth:,} messages"] = [_start_s(data, reference) for _ in range(STARTS)]
    least_s = median(reference)
    rows = []
    for name, times_s in figures.items():
        ratio = median(times_s) / least_s
        bar = f"{RATIO_MAX}: {'met' if ratio <= RATIO_MAX else f'**{MISSED}**'}"
        rows.append((name, f"{median(times_s):.2f} ({max(times_s):.2f})", f"{ratio:.2f}", bar))
    with service(scratch / "memory") as server:
        memory_mib = server.pss_bytes() / BYTES_PER_MIB
    return [
        f'`python -c "{REFERENCE}"`: {least_s:.2f} s in the median of {len(reference)} runs between them.',
        "",
        *table(("start of `cns up`", "s to the first answer, median (worst)", "by the reference", "bar"), rows),
        "",
        f"Memory of all its processes (PSS), idle: {memory_mib:.0f} MB.",
    ]


def _start_s(data: Path, reference: list[float]) -> float:
    """Seconds until the first answer. What the reference takes is measured before it."""
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", REFERENCE], check=True)
    reference.append(time.perf_counter() - began_s)
    began_s = time.perf_counter()
    with _answering(data):
        return time.perf_counter() - began_s


@contextmanager
def _answering(data: Path) -> Iterator[Server]:
    """A service from its first answer until all its processes are killed."""
    port = free_port()
    words: list[str | Path] = [BIN / "cns", "up", "--port", str(port), "--data", data]
    process = Process(words, data.with_suffix(".said"), plain_environment(), start_new_session=True)
    process.start()
    try:
        _wait_for_answer(port)
        keys = credentials_in(process.output())
        yield Server(name="service", port=port, pid=process.pid, credentials=keys, data=data)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for_answer(port: int) -> None:
    """Callers wait in the queue of the socket as soon as it is bound."""
    answer = b""
    while not answer:
        with contextlib.suppress(ConnectionError), socket.create_connection((HOST, port)) as caller:
            caller.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = caller.recv(1)


async def _fill(server: Server, depth: int, seed: int) -> None:
    client = await open_client(server, CONNECTIONS, seed, "deep")
    await send_batches(client, depth)
    client.close()
