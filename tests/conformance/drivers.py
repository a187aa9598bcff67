"""The drivers that the suite runs over. Each opens an engine, again and again, on the same data."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from cns_backend.engines import CLUSTER_ENGINES, ClusterEngineKind, ClusterServers
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.rpc.rpc import Client, Server
from cns_common.sqlite.database import Database
from cqs.engines.cassandra import schema as shared_schema
from cqs.engines.cassandra.clock_skew import open_clock_skew
from cqs.engines.contract import Capabilities, Engine
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.engines.remote.engine import RemoteEngine
from cqs.engines.remote.host import end_session, handlers
from cqs.engines.remote.protocol import methods
from lab.harness.servers import cassandra_address, fresh_keyspace, redis_url

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
DIFFERENT = {"cqs", WITHOUT_REDIS}
"""The drivers of these over which `make test` runs all tests marked with `differs_by_engine`."""
ENGINE = "embedded"
"""The name under which the remote driver's host serves its engine."""
FORGETFUL = {WITHOUT_REDIS}
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
async def _on_cassandra(name: str, clock: Clock) -> AsyncIterator[Engine]:
    """All tests of a session share a keyspace; their queues have unique ids."""
    host, port = cassandra_address()
    place = CassandraAddress(hosts=(host,), port=port, keyspace=KEYSPACE)
    await _make_tables(place)
    kind = CLUSTER["cqs" if name == WITHOUT_REDIS else name]
    cassandra = await Cassandra.open(place)
    try:
        async with open_clock_skew(cassandra, clock) as skew:
            servers = ClusterServers(
                cassandra=cassandra,
                redis_urls="" if name == WITHOUT_REDIS else redis_url(),
                clock=clock,
                skew=skew,
                keyspace=KEYSPACE,
            )
            async with kind.open(servers) as engine:
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
    for table in (*shared_schema.TABLES, *(table for kind in CLUSTER.values() for table in kind.tables)):
        await cassandra.run_schema(table)
    await cassandra.close()
    _made.add(place.keyspace)


async def drop_keyspaces() -> None:
    """Drop what this process made: many tables fill the heap of a server that many sessions share."""
    for name in _made:
        host, port = cassandra_address()
        cassandra = await Cassandra.open(CassandraAddress(hosts=(host,), port=port, keyspace=name), keyspace=False)
        await cassandra.run_schema(f"DROP KEYSPACE IF EXISTS {name}")
        await cassandra.close()
