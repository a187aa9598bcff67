"""The drivers the one suite runs over: each a way to open an engine, again and again, on what it left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from common.clock import Clock
from common.rpc import Client, Server
from common.sqlite import Database
from cqs.engines.contract import Capabilities, Engine
from cqs.engines.embedded import EmbeddedEngine
from cqs.engines.remote import METHODS, RemoteEngine, end_watches, handlers

DRIVERS: Mapping[str, Capabilities] = {
    "embedded": EmbeddedEngine.capabilities,
    "remote": EmbeddedEngine.capabilities,
}


class Driver:
    """Opens the engine under test; closing and opening again is a restart."""

    def __init__(self, name: str, directory: Path, clock: Clock) -> None:
        self.name = name
        self.directory = directory
        self.clock = clock

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Engine]:
        database = Database(self.directory, self.clock)
        engine = EmbeddedEngine(database, self.clock)
        database.start(asyncio.get_running_loop())
        try:
            if self.name == "embedded":
                yield engine
            else:
                async with _remote(engine, self.directory / "socket") as remote:
                    yield remote
        finally:
            await database.close()


@asynccontextmanager
async def _remote(engine: Engine, path: Path) -> AsyncIterator[Engine]:
    server = Server(METHODS)
    server.answer(handlers(engine))
    server.on_close.append(end_watches)
    await server.start(path)
    client = Client(path, METHODS)
    await client.start()
    try:
        yield await RemoteEngine.connect(client)
    finally:
        await client.close()
        await server.close()
