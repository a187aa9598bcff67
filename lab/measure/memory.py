"""Samples the resident memory of a service's processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec

from cns_common.process.supervisor import read_status
from lab.harness.server import Server
from lab.harness.usage import resident_bytes
from lab.load.polls import BYTES_PER_MIB

POLL_INTERVAL_S = 1.0


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory of one process, in MiB."""

    start: float
    middle: float
    peak: float
    end: float


class MemorySamples:
    """Samples of all processes."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, dict[str, int]]] = []

    def take(self, at_s: float, resident: dict[str, int]) -> None:
        self._taken.append((at_s, resident))

    def memory_use(self) -> dict[str, MemoryUse]:
        _, first = self._taken[0]
        return {name: self._memory_use([resident.get(name, 0) for _, resident in self._taken]) for name in first}

    def _memory_use(self, found: list[int]) -> MemoryUse:
        began_s, ended_s = self._taken[0][0], self._taken[-1][0]
        middle = next(n for n, (at_s, _) in enumerate(self._taken) if at_s >= (began_s + ended_s) / 2)
        values = (found[0], found[middle], max(found), found[-1])
        start, half, peak, end = (round(value / BYTES_PER_MIB, 1) for value in values)
        return MemoryUse(start=start, middle=half, peak=peak, end=end)


@asynccontextmanager
async def sampled_memory(server: Server) -> AsyncIterator[MemorySamples]:
    samples = MemorySamples()
    pids = {status.name: status.pid for status in read_status(server.data / "store" / "processes.json")}

    def take() -> None:
        samples.take(perf_counter(), {name: resident_bytes(pid) for name, pid in pids.items()})

    async def sample_forever() -> None:
        while True:
            take()
            await asyncio.sleep(POLL_INTERVAL_S)

    task = asyncio.create_task(sample_forever())
    try:
        yield samples
    finally:
        take()
        task.cancel()
