"""Reads a server's metrics page."""

from __future__ import annotations

import asyncio
import re
import urllib.request

from lab.harness.processes import METRICS_TOKEN
from lab.harness.server import Server

LOOK_TIMEOUT_S = 30.0


async def metric_total(server: Server, name: str) -> int:
    """The sum of a metric over all processes and labels."""
    pattern = re.compile(rf"^cns_{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", re.MULTILINE)
    return sum(int(float(text)) for text in pattern.findall(await asyncio.to_thread(metrics_page, server.port)))


def metrics_page(port: int) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"authorization": f"Bearer {METRICS_TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=LOOK_TIMEOUT_S) as page:
        text: str = page.read().decode()
    return text
