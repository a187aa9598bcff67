"""Runs the workloads on one server in a fixed order on fresh data, and returns their figures."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop

from lab.harness.server import Server, python, running
from lab.harness.usage import await_quiet
from lab.harness.waiting import wait_until
from lab.load import polls, publishes, queues
from lab.load.sink import Sink
from lab.measure.figures import Figures

FLOOR = python("lab.floor.server")
TOPOLOGIES = {
    "one process": (FLOOR, 1),
    "store apart": (python("lab.floor.split", "--apis", "1"), 1),
    "store apart, 2 APIs": (python("lab.floor.split", "--apis", "2"), 2),
}
"""The floor in the topologies of ADR 0001: command and number of listening processes."""
SERVICE = [str(Path(sys.executable).parent / "cns"), "up", "--port", "{port}", "--data", "{data}"]
CONNECTIONS = 64
PUBLISHERS = 16
WAITING = 8
QUIET_S_MAX = 10.0
"""The longest time that a run waits for the machine to be idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of operations of each workload."""

    sends: int
    pairs: int
    batched: int
    wakes: int
    publishes: int


FULL = Size(sends=30_000, pairs=15_000, batched=100_000, wakes=300, publishes=4_000)
QUICK = Size(sends=2_000, pairs=1_000, batched=4_000, wakes=20, publishes=200)


@contextmanager
def served(
    name: str, command: list[str], data: Path, environment: Mapping[str, str] | None = None, *, listeners: int = 1
) -> Iterator[Server]:
    """Run a server and wait until it is ready; for the service, until its worker has reported."""
    with running(name, command, data, environment, listeners=listeners) as server:
        if command[0].endswith("cns"):
            wait_until(lambda: is_ready(server.port), 30, lambda: f"{name} is not ready")
        yield server


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
            return bool(json.load(answer)["ready"])
    except OSError:
        return False


async def queue_workloads(server: Server, size: Size, seed: int) -> list[Figures]:
    """Send, receive + delete, batches, wake."""
    client = await queues.open_client(server, CONNECTIONS, seed, "single")
    figures = [await queues.send(client, size.sends), await queues.receive_delete(client, size.pairs)]
    await client.use_queue("batched")
    figures += [await queues.send_batches(client, size.batched), await queues.drain(client, size.batched)]
    client.close()
    figures.append(await polls.wake(await queues.open_client(server, WAITING + 1, seed, "wake"), size.wakes))
    return figures


def topology_runs(data: Path, n: int, size: Size, seed: int) -> Iterator[Figures]:
    """Single sends, receives and deletes on the floor in each topology. All servers run, and are measured in turn."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(served(name, command, data / f"topology-{place}", listeners=listeners))
            for place, (name, (command, listeners)) in enumerate(TOPOLOGIES.items())
        ]
        for number in range(-1, n):  # the first warms up
            for server in servers:
                await_quiet(QUIET_S_MAX)
                figures = uvloop.run(_singles(server, size, seed + number, f"single-{number}"))
                yield from figures if number >= 0 else ()


async def _singles(server: Server, size: Size, seed: int, queue: str) -> list[Figures]:
    client = await queues.open_client(server, CONNECTIONS, seed, queue)
    figures = [await queues.send(client, size.sends), await queues.receive_delete(client, size.pairs)]
    client.close()
    return figures


async def publish_workloads(server: Server, size: Size, seed: int) -> list[Figures]:
    """Publish → HTTP, signed and raw, at full, half and low load; publish → 1 and 10 queues."""
    figures: list[Figures] = []
    for kind, raw in (("signed", False), ("raw", True)):
        publisher = await publishes.open_publisher(server, PUBLISHERS, seed, f"web-{kind}")
        sink = Sink()
        await publisher.subscribe_sink(sink, raw=raw)
        await publishes.saturate_sink(publisher, size.publishes // 10, sink)
        full = await publishes.saturate_sink(publisher, size.publishes, sink)
        half = await publishes.pace_sink(publisher, full.per_s / 2, 3.0, sink)
        calm = await publishes.pace_sink(publisher, 25.0, 3.0, sink)
        figures += [_named(full, f"publish → HTTP, {kind}"), _named(half, f"… at half load, {kind}")]
        figures.append(_named(calm, f"… idle (25/s), {kind}"))
    for number in (1, 10):
        publisher = await publishes.open_publisher(server, PUBLISHERS, seed, f"queues-{number}")
        names = [f"fan-{number}-{n}" for n in range(number)]
        await publisher.subscribe_queues(names, raw=True)
        figures.append(await publishes.saturate_queues(publisher, size.publishes, names))
    return figures


def _named(figures: Figures, workload: str) -> Figures:
    return msgspec.structs.replace(figures, workload=workload)
