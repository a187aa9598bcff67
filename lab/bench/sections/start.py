"""The time from the start of `cns up` to its first answer, on new data and after `kill -9`, and the memory of all
processes."""

from __future__ import annotations

import contextlib
import os
import re
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

from lab.bench.sections.runs import CONNECTIONS, is_ready
from lab.harness.ports import free_port
from lab.harness.processes import keys_in
from lab.harness.server import Server
from lab.harness.signing import Credentials
from lab.harness.usage import tree
from lab.harness.waiting import wait_until
from lab.load import queues

REFERENCE = "import fastapi, uvicorn, apsw, msgspec"
RATIO_MAX = 1.5
"""The bar: a start by the time of importing the libraries that a least service would take."""
STARTS = 9
DEPTHS = (100_000, 1_000_000)
_PSS = re.compile(r"^Pss: +(\d+) kB", re.MULTILINE)


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    reference: list[float] = []
    figures = {"new data": [_start_s(scratch / f"new-{number}", reference) for number in range(STARTS)]}
    for depth in DEPTHS:
        data = scratch / f"filled-{depth}"
        with _running(data) as server:
            uvloop.run(_fill(server, depth, seed))
        figures[f"after `kill -9`, {depth:,} messages"] = [_start_s(data, reference) for _ in range(STARTS)]
    least_s = median(reference)
    lines = [
        f'`python -c "{REFERENCE}"`: {least_s:.2f} s in the median of {len(reference)} runs between them.',
        "",
        "| start of `cns up` | s to the first answer, median (worst) | by the reference | bar |",
        "|---|---|---|---|",
    ]
    for name, times_s in figures.items():
        ratio = median(times_s) / least_s
        met = "met" if ratio <= RATIO_MAX else "**missed**"
        lines.append(f"| {name} | {median(times_s):.2f} ({max(times_s):.2f}) | {ratio:.2f} | {RATIO_MAX}: {met} |")
    with _running(scratch / "memory") as server:
        wait_until(lambda: is_ready(server.port), 30)
        lines += ["", f"Memory of all its processes (PSS), idle: {_pss_mb(server.pid):.0f} MB."]
    return lines


def _start_s(data: Path, reference: list[float]) -> float:
    """Seconds until the first answer. What the reference takes is measured before it."""
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", REFERENCE], check=True)
    reference.append(time.perf_counter() - began_s)
    began_s = time.perf_counter()
    with _running(data):
        return time.perf_counter() - began_s


@contextmanager
def _running(data: Path) -> Iterator[Server]:
    """A service from its first answer until all its processes are killed."""
    port, said = free_port(), data.with_suffix(".said")
    with said.open("ab") as out:
        process = subprocess.Popen(
            [Path(sys.executable).parent / "cns", "up", "--port", str(port), "--data", data],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for_answer(port)
        keys = keys_in(said.read_text())
        yield Server(
            name="service",
            port=port,
            pid=process.pid,
            credentials=Credentials(key_id=keys["key"], secret=keys["secret"]),
            data=data,
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for_answer(port: int) -> None:
    """Callers wait in the queue of the socket as soon as it is bound."""
    answer = b""
    while not answer:
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = caller.recv(1)


async def _fill(server: Server, depth: int, seed: int) -> None:
    client = await queues.open_client(server, CONNECTIONS, seed, "deep")
    await queues.send_batches(client, depth)
    client.close()


def _pss_mb(pid: int) -> float:
    """Memory that several processes share counts once."""
    texts = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in tree(pid)]
    return sum(int(found[1]) for text in texts if (found := _PSS.search(text))) / 1_024
