"""Reads a server's metrics page."""

from __future__ import annotations

import asyncio
import re
import urllib.request

from bench.measure.processes import Server

LOOK_TIMEOUT_S = 30.0


async def metric_total(server: Server, name: str) -> int:
    """The sum of a metric over all processes and labels."""
    pattern = re.compile(rf"^cns_{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", re.MULTILINE)
    return sum(int(float(text)) for text in pattern.findall(await asyncio.to_thread(_page, server.port)))


def _page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LOOK_TIMEOUT_S) as page:
        text: str = page.read().decode()
    return text
