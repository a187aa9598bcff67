"""The drivers that the suite runs over. Each opens an engine, again and again, on the same data."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from cns_common.cassandra.session import Cassandra, CassandraAddress
from cns_common.clock import Clock
from cns_common.rpc.rpc import Client, Server
from cns_common.sqlite.database import Database
from cqs.engines.cluster import ClusterEngine, open_engine
from cqs.engines.cluster import schema as standard_schema
from cqs.engines.cluster.fifo import schema as fifo_schema
from cqs.engines.contract import Capabilities, Engine
from cqs.engines.embedded import EmbeddedEngine
from cqs.engines.remote import RemoteEngine, end_session, handlers, methods
from tests.servers import cassandra_address, fresh_keyspace, redis_url

DRIVERS: Mapping[str, Capabilities] = {
    "embedded": EmbeddedEngine.capabilities,
    "remote": EmbeddedEngine.capabilities,
    "cqs": ClusterEngine.capabilities,
    "cqs-alone": replace(ClusterEngine.capabilities, fifo=False),  # without Redis
}
"""FIFO queues do not use Redis: what is tested of them over `cqs` holds without it."""
ENGINE = "embedded"
"""The name under which the remote driver's host serves its engine."""
FAIR = {"embedded", "remote"}
"""Drivers that serve quiet tenants of a fair queue first."""
FORGETFUL = {"cqs-alone"}
"""Drivers whose leases do not survive a restart: without Redis a process hides messages in memory."""
KEYSPACE = os.environ.get("CONFORMANCE_KEYSPACE") or fresh_keyspace()
"""A child process of a test uses its parent's keyspace."""


class Driver:
    """Opens the engine under test. Closing and opening it again is a restart."""

    def __init__(self, name: str, directory: Path, clock: Clock) -> None:
        self.name = name
        self.directory = directory
        self.clock = clock

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Engine]:
        if self.name.startswith("cqs"):
            async with _cqs(self.name, self.clock) as engine:
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


@asynccontextmanager
async def _remote(engine: Engine, clock: Clock, path: Path) -> AsyncIterator[Engine]:
    server = Server(methods(ENGINE))
    server.answer(handlers(ENGINE, engine, clock))
    server.on_close.append(end_session)
    await server.start(path)
    client = Client(path, methods(ENGINE))
    await client.start()
    try:
        yield await RemoteEngine.connect(client, ENGINE)
    finally:
        await client.close()
        await server.close()


@asynccontextmanager
async def _cqs(name: str, clock: Clock) -> AsyncIterator[Engine]:
    """All tests of a session share a keyspace; their queues have unique ids."""
    host, port = cassandra_address()
    place = CassandraAddress(hosts=(host,), port=port, keyspace=KEYSPACE)
    await _make_tables(place)
    cassandra = await Cassandra.open(place)
    try:
        async with open_engine(cassandra, "" if name == "cqs-alone" else redis_url(), clock, KEYSPACE) as engine:
            yield engine
    finally:
        await cassandra.close()


_made: set[str] = set()


async def _make_tables(place: CassandraAddress) -> None:
    if place.keyspace in _made:
        return
    cassandra = await Cassandra.open(place, keyspace=False)
    replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
    await cassandra.run_schema(f"CREATE KEYSPACE IF NOT EXISTS {place.keyspace} WITH replication = {replication}")
    await cassandra.run_schema(f"USE {place.keyspace}")
    for table in (*standard_schema.TABLES, *fifo_schema.TABLES):
        await cassandra.run_schema(table)
    await cassandra.close()
    _made.add(place.keyspace)
