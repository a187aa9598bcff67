"""The engines on a ring, with a replica of every row on each node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from cns_backend.engines import CLUSTER_ENGINES, ClusterServers
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.schema import keyspace_text
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cassandra import schema as shared
from cqs.engines.cassandra.clock_skew import open_clock_skew
from cqs.engines.contract import LocalEngine
from lab.harness.servers import Ring, fresh_keyspace
from lab.harness.waiting import PATIENCE_S

TABLES = (*shared.TABLES, *(table for kind in CLUSTER_ENGINES.values() for table in kind().tables))


@dataclass(frozen=True, slots=True)
class Process:
    cassandra: Cassandra
    engine: LocalEngine
    clock: Clock


class Place(NamedTuple):
    """The servers and the engine that processes use."""

    cassandra: CassandraAddress
    engine: str = "cqs"
    redis: str = ""
    """The URL of Redis, which `cqs` can do without."""

    def words(self) -> list[str]:
        """As arguments of another process."""
        address = self.cassandra
        return [",".join(address.hosts), str(address.port), address.keyspace, self.engine, self.redis]

    @classmethod
    def of_words(cls, hosts: str, port: str, keyspace: str, engine: str, redis: str) -> Place:
        return cls(CassandraAddress(hosts=tuple(hosts.split(",")), port=int(port), keyspace=keyspace), engine, redis)


async def make_keyspace(ring: Ring, copies: int = 0) -> CassandraAddress:
    """A keyspace with the engines' tables, with so many copies of each row, by default one a node. It goes with the
    ring. A node that was suspended or restarted may take longer than one try to agree on a table."""
    hosts = tuple(host for host, _ in ring.addresses)
    place = CassandraAddress(hosts=hosts, port=ring.addresses[0][1], keyspace=fresh_keyspace())
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(CnsError), wait=wait_fixed(1), stop=stop_after_delay(PATIENCE_S), reraise=True
    ):
        with attempt:
            await _make_tables(place, copies or len(hosts))
    return place


async def _make_tables(place: CassandraAddress, copies: int) -> None:
    """Each statement may be run again."""
    bare = await Cassandra.open(place, keyspace=False)
    try:
        await bare.run_schema(keyspace_text(place, copies))
    finally:
        await bare.close()
    cassandra = await Cassandra.open(place)
    try:
        for text in TABLES:
            await cassandra.run_schema(text)
    finally:
        await cassandra.close()


@asynccontextmanager
async def process(place: Place) -> AsyncIterator[Process]:
    """A process that uses the engine."""
    clock = Clock()
    cassandra = await Cassandra.open(place.cassandra)
    try:
        async with open_clock_skew(cassandra, clock) as skew:
            servers = ClusterServers(
                cassandra=cassandra,
                redis_urls=place.redis,
                clock=clock,
                skew=skew,
                keyspace=place.cassandra.keyspace,
            )
            async with CLUSTER_ENGINES[place.engine]().open(servers) as engine:
                yield Process(cassandra, engine, clock)
    finally:
        await cassandra.close()
