"""The section `background`: statements per second of idle API processes, before and after their queues were used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvloop

from lab.bench.site import Site, api_processes, store
from lab.bench.tables import bar_cell, table
from lab.load.queues import handles_in, open_client

SHAPES = ((1, 100), (4, 1_000))
"""Processes, and queues that each of them uses; the first has the bar."""
SETTLE_S, COUNT_S = 60.0, 60.0
PER_S_MAX = 10


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    rows: list[tuple[object, ...]] = []
    for processes, queues in SHAPES:
        directory = scratch / f"{processes}"
        with store() as place, api_processes(place, processes, directory, counted=True) as site:
            unused, idle = uvloop.run(measure(site, queues, seed))
        bar = "" if rows else bar_cell(f"≤ {PER_S_MAX}", met=idle <= PER_S_MAX)
        rows.append((processes, f"{queues:,}", f"{unused:.1f}", f"{idle:.1f}", bar))
        print(rows[-1], flush=True)
    return table(("API processes", "queues", "statements/s before any use", "idle after use", "bar"), rows)


async def measure(site: Site, queues: int, seed: int) -> tuple[float, float]:
    """Statements a second of all processes together: each sends, receives and deletes a message of every queue."""
    unused = await _per_s(site)
    for server in site.api_servers:
        client = await open_client(server, 1, seed)
        (lane,) = client.lanes
        for number in range(queues):
            await client.use_queue(f"idle-{number}")
            await lane.ask(client.call("SendMessage", MessageBody="used"))
            for handle in handles_in(await lane.ask(client.receive(1))):
                await lane.ask(client.delete(handle))
        client.close()
    return unused, await _per_s(site)


async def _per_s(site: Site) -> float:
    await asyncio.sleep(SETTLE_S)
    before = site.statements()
    await asyncio.sleep(COUNT_S)
    return site.statements().since(before).total / COUNT_S
