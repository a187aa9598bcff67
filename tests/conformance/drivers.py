"""The drivers that the suite runs over. Each opens an engine, again and again, on the same data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from cns_backend.engines import CLUSTER_ENGINES, ClusterEngineKind, ClusterServers
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.rpc.rpc import RpcClient, Server
from cns_common.sqlite.database import Database
from cqs.engines.cassandra.clock_skew import open_clock_skew
from cqs.engines.contract import Capabilities, Engine
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.engines.remote.engine import RemoteEngine
from cqs.engines.remote.host import end_session, handlers
from cqs.engines.remote.protocol import methods
from lab.harness.keyspace import own_keyspace
from lab.harness.servers import redis_url
from tests.conformance.support import QueueFixture

CLUSTER: Mapping[str, ClusterEngineKind] = {name: kind() for name, kind in CLUSTER_ENGINES.items()}
"""The engines on Cassandra. A new engine of `cns_backend.engines` is a driver, too."""
WITHOUT_REDIS = "cqs-alone"
DRIVERS: Mapping[str, Capabilities] = {
    "embedded": EmbeddedEngine.capabilities,
    "remote": EmbeddedEngine.capabilities,
    **{name: kind.capabilities for name, kind in CLUSTER.items()},
    WITHOUT_REDIS: replace(CLUSTER["cqs"].capabilities, fifo=False, fair=False),
}
"""FIFO queues do not use Redis: what is tested of them over `cqs` holds without it."""
ON_CASSANDRA = {*CLUSTER, WITHOUT_REDIS}
ENGINE = "embedded"
"""The name under which the remote driver's host serves its engine."""
FORGETFUL = {WITHOUT_REDIS}
"""Drivers whose leases do not survive a restart: without Redis a process hides messages in memory."""


class Driver:
    """Opens the engine under test. Closing and opening it again is a restart."""

    def __init__(self, name: str, directory: Path, clock: Clock) -> None:
        self.name = name
        self.directory = directory
        self.clock = clock

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Engine]:
        if self.name in ON_CASSANDRA:
            async with _on_cassandra(self.name, self.clock) as engine:
                yield engine
            return
        database = Database(self.directory, self.clock)
        engine = EmbeddedEngine(database, self.clock)
        database.start(asyncio.get_running_loop())
        try:
            if self.name == "embedded":
                yield engine
            else:
                async with _remote(engine, self.clock, self.directory / "socket") as remote:
                    yield remote
        finally:
            await database.close()

    async def start(self) -> None:
        self._opening = self.open()
        self.engine = await self._opening.__aenter__()

    async def stop(self) -> None:
        await self._opening.__aexit__(None, None, None)

    async def restart(self, queue: QueueFixture) -> QueueFixture:
        """The queue after a restart of the engine that was started."""
        await self.stop()
        await self.start()
        return queue.at(self.engine)


@asynccontextmanager
async def _remote(engine: Engine, clock: Clock, path: Path) -> AsyncIterator[Engine]:
    server = Server(methods(ENGINE))
    server.answer(handlers(ENGINE, engine, clock))
    server.on_close.append(end_session)
    await server.start(path)
    client = RpcClient(path, methods(ENGINE))
    await client.start()
    try:
        yield await RemoteEngine.connect(client, ENGINE)
    finally:
        await client.close()
        await server.close()


@asynccontextmanager
async def _on_cassandra(name: str, clock: Clock) -> AsyncIterator[Engine]:
    """All tests of a process share a keyspace; their queues have unique ids."""
    place = own_keyspace()
    kind = CLUSTER["cqs" if name == WITHOUT_REDIS else name]
    cassandra = await Cassandra.open(place)
    try:
        async with open_clock_skew(cassandra, clock) as skew:
            servers = ClusterServers(
                cassandra=cassandra,
                redis_urls="" if name == WITHOUT_REDIS else redis_url(),
                clock=clock,
                skew=skew,
                keyspace=place.keyspace,
            )
            async with kind.open(servers) as engine:
                yield engine
    finally:
        await cassandra.close()
