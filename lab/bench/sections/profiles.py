"""CPU profiles of the service's hot paths: a sampler runs in its processes, and each section is saved as text."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop

from lab.bench.sections.runs import CONNECTIONS, PUBLISHERS, SERVICE, Size, served
from lab.harness.server import Server
from lab.load import publishes, queues
from lab.load.sink import Sink
from lab.measure.sampler import environment

CPU_S_MIN = 0.2
"""Processes that used less are left out."""
WRITE_S = 0.5

_CPU_S = re.compile(r"samples, ([\d.]+) CPU seconds")


def profile(scratch: Path, folder: Path, size: Size, seed: int) -> list[Path]:
    """Run each hot path on the service. Returns one profile per path and process, the busiest process first."""
    samples = scratch / "samples"
    with served("service", SERVICE, scratch / "profiled", environment(samples)) as server:
        return uvloop.run(_profile(server, samples, folder, size, seed))


async def _profile(server: Server, samples: Path, folder: Path, size: Size, seed: int) -> list[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = []
    await _end_section(server)  # the start
    section = 1
    async for path in _hot_paths(server, size, seed):
        await _end_section(server)
        kept += _keep(samples, section, folder, path)
        section += 1
    return kept


async def _hot_paths(server: Server, size: Size, seed: int) -> AsyncIterator[str]:
    """Run each path, and yield its name afterwards."""
    client = await queues.open_client(server, CONNECTIONS, seed, "profiled")
    await queues.send(client, size.sends)
    yield "send"
    await queues.receive_delete(client, min(size.sends, size.pairs))
    yield "receive-delete"
    await queues.send_batches(client, size.batched)
    yield "batch-send"
    await queues.drain(client, size.sends - min(size.sends, size.pairs) + size.batched)
    yield "batch-receive-delete"
    client.close()
    publisher = await publishes.open_publisher(server, PUBLISHERS, seed, "profiled-queue")
    await publisher.subscribe_queues(["profiled-target"], raw=True)
    await publishes.saturate_queues(publisher, size.publishes, ["profiled-target"])
    yield "publish-sqs"
    publisher.close()
    publisher = await publishes.open_publisher(server, PUBLISHERS, seed, "profiled-web")
    sink = Sink()
    await publisher.subscribe_sink(sink, raw=False)
    await publishes.saturate_sink(publisher, size.publishes, sink)
    yield "publish-http-signed"
    publisher.close()
    await sink.close()


async def _end_section(server: Server) -> None:
    for pid in server.processes():
        os.kill(pid, signal.SIGUSR1)
    await asyncio.sleep(WRITE_S)


def _keep(samples: Path, section: int, folder: Path, path: str) -> list[Path]:
    texts = [file.read_text() for file in samples.glob(f"*-{section}.txt")]
    busy = sorted([text for text in texts if _cpu_s(text) >= CPU_S_MIN], key=_cpu_s, reverse=True)
    kept = []
    for place, text in enumerate(busy, 1):
        file = folder / f"{path}-{place}.txt"
        file.write_text(text)
        kept.append(file)
    return kept


def _cpu_s(text: str) -> float:
    found = _CPU_S.search(text)
    return float(found[1]) if found else 0.0
