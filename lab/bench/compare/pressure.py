"""One side under pressure: the same calls on a queue that is calm, deep, held, retried, deleted from, or being read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from lab.bench.compare.rates import Result, tried
from lab.bench.compare.sides import Side
from lab.harness.server import Server
from lab.load import workloads
from lab.load.queues import BATCH, Client, open_client
from lab.load.wire import LoadError
from lab.measure.figures import Figures

CONNECTIONS = 16
CHUNK_MIN, CHUNK_MAX = 1_000, 10_000
CHUNK_S = 2.0
"""Messages that are sent and deleted at a time, as many as take so long: the queue of many deleted rows is not deep."""
CELLS = ("calm", "a consumer stopped", "many in flight", "half retried", "many deleted", "a long read beside")


class Size(NamedTuple):
    cycles: int
    backlog: int
    in_flight: int
    deleted: int
    seconds_max: float = 10.0
    fill_s_max: float = 15.0
    delete_s_max: float = 150.0


class Cell(NamedTuple):
    """The result, and how many messages the pressure was made of, or reads; 0 where nothing is counted."""

    result: Result
    amount: int = 0


async def measure(server: Server, side: Side, size: Size, data: Path, seed: int) -> dict[str, Cell]:
    """Each cell has a queue of its own in the same server."""
    cells: dict[str, Cell] = {}
    for name in CELLS:
        pressure = _Pressure(server, side, size, data, seed)
        cells[name] = Cell(await tried(lambda: pressure.measure(name)), pressure.amount)  # noqa: B023  # called at once
    return cells


class _Pressure:
    """One cell: its queue, and what is done to it before and while the calls are measured."""

    def __init__(self, server: Server, side: Side, size: Size, data: Path, seed: int) -> None:
        self._server = server
        self._side = side
        self._size = size
        self._data = data.absolute()
        self._seed = seed
        self._client: Client
        self.amount = 0

    async def measure(self, cell: str) -> Figures:
        self._client = await open_client(self._server, CONNECTIONS, self._seed, cell.replace(" ", "-"))
        try:
            return await self._measure(cell)
        finally:
            self._client.close()

    async def _measure(self, cell: str) -> Figures:
        size = self._size
        match cell:
            case "a consumer stopped":  # the messages that it left lie before those of the others
                await self._fill(size.backlog)
            case "many in flight":
                await self._fill(size.in_flight)
                self.amount = await workloads.hold(self._client, self.amount, size.fill_s_max)
            case "half retried":
                return await workloads.retried_cycles(self._client, size.cycles, size.seconds_max)
            case "many deleted":
                await self._delete(size.deleted)
            case "a long read beside":
                await self._fill(size.backlog)
                async with self._reading():
                    return await self._cycles()
        return await self._cycles()

    async def _cycles(self) -> Figures:
        return await workloads.cycles(self._client, self._size.cycles, self._size.seconds_max)

    async def _fill(self, messages: int) -> None:
        self.amount = (await workloads.send_batches(self._client, messages, self._size.fill_s_max)).units

    async def _delete(self, messages: int) -> None:
        until_s, chunk = perf_counter() + self._size.delete_s_max, CHUNK_MIN
        while self.amount < messages and (began_s := perf_counter()) < until_s:
            chunk = max(min(chunk, messages - self.amount) // BATCH, 1) * BATCH
            sent = await workloads.send_batches(self._client, chunk, until_s - began_s)
            self.amount += (await workloads.drain(self._client, sent.units, self._size.fill_s_max)).units
            in_time = int(chunk / (perf_counter() - began_s) * CHUNK_S)
            chunk = min(max(in_time, CHUNK_MIN), CHUNK_MAX)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Read again and again during the block, by the side's backup or its queue's attributes. The last read ends,
        and counts as well."""
        reader = await open_client(self._server, 1, self._seed)
        reader.url = self._client.url
        read: Callable[[], Awaitable[object]] = self._back_up if self._side.long_read else reader.attributes
        self.amount, is_over = 0, asyncio.Event()

        async def loop() -> None:
            while not is_over.is_set():
                await read()
                self.amount += 1

        reading = asyncio.create_task(loop())
        try:
            yield
            is_over.set()
            await reading
        finally:
            reading.cancel()
            reader.close()

    async def _back_up(self) -> None:
        """Run the side's command to its end; each copy has a place of its own."""
        store, out = self._data / "store", self._data / f"copy-{self.amount}"
        words = [word.format(data=store, out=out) for word in self._side.long_read]
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
        if code != 0:
            raise LoadError(f"{words[0]} ended with {code}")
