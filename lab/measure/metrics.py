"""Reads a server's metrics page."""

from __future__ import annotations

import asyncio

from cns_pytest.http import fetch
from lab.harness.server import Server
from lab.harness.service import OBSERVER, Samples, read_samples, total

ANSWER_S = 30.0


async def metric_total(server: Server, name: str) -> int:
    """The sum of a metric over all processes and labels."""
    return int(total(await samples(server), f"cns_{name}"))


async def samples(server: Server) -> Samples:
    url = f"http://127.0.0.1:{server.port}/metrics"
    _, page = await asyncio.to_thread(fetch, url, headers=OBSERVER, timeout_s=ANSWER_S)
    return read_samples(page.decode())
