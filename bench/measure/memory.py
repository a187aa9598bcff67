"""Resident memory of a service's processes, looked at over and over while it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec

from bench.load.polls import BYTES_PER_MIB
from bench.measure.processes import Server, resident_bytes
from cns_common.process.supervisor import read_status

POLL_INTERVAL_S = 1.0


class Residence(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, in MiB."""

    start: float
    middle: float
    peak: float
    end: float


class Looks:
    """Looks of all processes by name."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, dict[str, int]]] = []

    def take(self, at_s: float, resident: dict[str, int]) -> None:
        self._taken.append((at_s, resident))

    def residences(self) -> dict[str, Residence]:
        _, first = self._taken[0]
        return {name: self._residence([resident.get(name, 0) for _, resident in self._taken]) for name in first}

    def _residence(self, found: list[int]) -> Residence:
        began_s, ended_s = self._taken[0][0], self._taken[-1][0]
        middle = next(n for n, (at_s, _) in enumerate(self._taken) if at_s >= (began_s + ended_s) / 2)
        values = (found[0], found[middle], max(found), found[-1])
        start, half, peak, end = (round(value / BYTES_PER_MIB, 1) for value in values)
        return Residence(start=start, middle=half, peak=peak, end=end)


@asynccontextmanager
async def looking(server: Server) -> AsyncIterator[Looks]:
    looks = Looks()
    pids = {status.name: status.pid for status in read_status(server.data / "store" / "processes.json")}

    def take() -> None:
        looks.take(perf_counter(), {name: resident_bytes(pid) for name, pid in pids.items()})

    async def look() -> None:
        while True:
            take()
            await asyncio.sleep(POLL_INTERVAL_S)

    task = asyncio.create_task(look())
    try:
        yield looks
    finally:
        take()
        task.cancel()
