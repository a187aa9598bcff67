"""Finds the part of a cluster that stalled while a call was slow: each part is probed every 20 ms.

A probe is the cheapest call that waits for what a real call waits for: a row written to Cassandra, PING, GET /live, and
the generator's own event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import cast

import redis.asyncio
from cassandra.cluster import Session

from lab.load.wire import Lane, connect

INTERVAL_S = 0.02
STALL_NS = 30_000_000
"""A probe that takes longer is a stall."""
NS_PER_S = 1_000_000_000
PROBE_TABLE = "bench_probe"
LIVE = b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

Probe = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Stall:
    part: str
    began_ns: int
    took_ns: int

    def overlap_ns(self, began_ns: int, took_ns: int) -> int:
        return min(self.began_ns + self.took_ns, began_ns + took_ns) - max(self.began_ns, began_ns)


@dataclass(slots=True)
class StallLog:
    """The stalls of all parts, in the order in which they ended."""

    stalls: list[Stall] = field(default_factory=list)

    def cause(self, began_ns: int, took_ns: int) -> str:
        """The parts that stalled during a quarter of a call or more, the longest first."""
        parts: dict[str, int] = {}
        for stall in self.stalls:
            if stall.overlap_ns(began_ns, took_ns) * 4 > took_ns:
                parts[stall.part] = max(stall.took_ns, parts.get(stall.part, 0))
        words = [f"{part} {ns / NS_PER_S:.2f} s" for part, ns in sorted(parts.items(), key=lambda item: -item[1])]
        return ", ".join(words) or "no part stalled"

    @asynccontextmanager
    async def watch(self, probes: Mapping[str, Probe]) -> AsyncIterator[None]:
        """Probe all parts within the block."""
        tasks = [asyncio.create_task(self._probe(part, probe)) for part, probe in probes.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task

    async def _probe(self, part: str, probe: Probe) -> None:
        while True:
            began_ns = perf_counter_ns()
            await probe()
            took_ns = perf_counter_ns() - began_ns
            if took_ns > STALL_NS:
                self.stalls.append(Stall(part, began_ns, took_ns))
            await asyncio.sleep(INTERVAL_S)


@asynccontextmanager
async def cluster_probes(session: Session, redis_url: str, apis: Mapping[str, int]) -> AsyncIterator[dict[str, Probe]]:
    """Probes of the generator, Cassandra, Redis and each API process by its port."""
    session.execute(f"CREATE TABLE IF NOT EXISTS {PROBE_TABLE} (id int PRIMARY KEY, at bigint)")
    write = session.prepare(f"INSERT INTO {PROBE_TABLE} (id, at) VALUES (0, ?)")
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(redis_url)
    lanes = {part: (await connect(port, 1))[0] for part, port in apis.items()}

    def asking(lane: Lane) -> Probe:
        return lambda: lane.ask(LIVE)

    probes: dict[str, Probe] = {
        "generator": lambda: asyncio.sleep(0),
        "Cassandra": lambda: asyncio.to_thread(session.execute, write, (perf_counter_ns(),)),
        "Redis": lambda: cast(Awaitable[object], client.ping()),
    }
    try:
        yield probes | {part: asking(lane) for part, lane in lanes.items()}
    finally:
        for lane in lanes.values():
            lane.close()
        await client.aclose()
