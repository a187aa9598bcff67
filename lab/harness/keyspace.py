"""Keyspaces with all tables, made once on a Cassandra, and emptied for those that need them empty."""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import functools
import hashlib
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cassandra.cluster import Cluster

from cns_backend import schema
from cns_common.cassandra import connection, session
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.errors import StoreUnavailable
from lab.harness.servers import Ring, cassandra_address, fresh_keyspace
from lab.harness.waiting import PATIENCE_S

TABLES = tuple(schema.table_names())
VERSION = hashlib.sha256("".join(schema.TABLES).encode()).hexdigest()[:8]
OWN_KEYSPACE = "TEST_KEYSPACE"
"""A variable: the name of the keyspace that a child process of a test shares with it."""
COPIES = 3
"""The copies of each row on a ring."""
LOCKS = Path(tempfile.gettempdir()) / f"cns-test-keyspaces-{os.getuid()}"


@contextmanager
def quick_sessions() -> Iterator[None]:
    """Sessions for tests on one node. Statements take however long they take: a Cassandra that stalls with its machine
    for seconds is no outage. The driver reads no metadata of tables, which routes by tokens only: with those of all
    tests' keyspaces a new session would cost 20 times as much."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(connection, "Cluster", functools.partial(Cluster, schema_metadata_enabled=False))
        for limit in ("STATEMENT_S", "CONDITIONAL_S", "PREPARE_S", "PROBE_S", "SCHEMA_S"):
            changed.setattr(session, limit, PATIENCE_S)
        for limit in ("CONNECT_TIMEOUT_S", "HEARTBEAT_S"):
            changed.setattr(connection, limit, PATIENCE_S)
        yield


@contextmanager
def keyspace() -> Iterator[CassandraAddress]:
    """An empty keyspace with all tables, which nobody else uses within the block.

    Its name has a number, which a lock on this machine gives out, and the version of the schema. It stays for the next
    process: making 86 tables takes Cassandra seconds.
    """
    host, port = cassandra_address()
    with _number(port) as number:
        place = CassandraAddress(hosts=(host,), port=port, keyspace=f"test_{number}_{VERSION}")
        aside(_make_ready(place, f"test_{number}_"))
        yield place


def ring_keyspace(ring: Ring) -> CassandraAddress:
    """A new keyspace with all tables, which goes with the ring."""
    hosts, ports = zip(*ring.addresses, strict=True)
    place = CassandraAddress(hosts=hosts, port=ports[0], keyspace=fresh_keyspace())
    aside(schema.apply(place, COPIES))
    return place


@functools.cache
def own_keyspace() -> CassandraAddress:
    """The `keyspace` of this process for its life, or the one that its parent process names."""
    named = os.environ.get(OWN_KEYSPACE)
    if named:
        host, port = cassandra_address()
        return CassandraAddress(hosts=(host,), port=port, keyspace=named)
    block = keyspace()
    atexit.register(block.__exit__, None, None, None)
    return block.__enter__()


@asynccontextmanager
async def emptied(place: CassandraAddress) -> AsyncIterator[Cassandra]:
    """A session on the keyspace, emptied first. Only tables with rows are truncated, which is quicker."""
    cassandra = await Cassandra.open(place)
    try:
        await asyncio.gather(*[_empty(cassandra, table) for table in TABLES])
        yield cassandra
    finally:
        await cassandra.close()


def asked(cassandra: Cassandra) -> int:
    """The statements of callers so far."""
    return cassandra.statements - cassandra.background_statements.total()


def aside(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on an event loop of its own, also from within another loop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


@contextmanager
def _number(port: int) -> Iterator[int]:
    """The lowest number that no other process has a lock on."""
    LOCKS.mkdir(exist_ok=True)
    for number in itertools.count():
        with (LOCKS / f"{port}-{number}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield number
            return


async def _make_ready(place: CassandraAddress, earlier: str) -> None:
    """Empty the keyspace, or make it, and drop those of other versions, whose names begin with `earlier`."""
    bare = await Cassandra.open(place, keyspace=False)
    try:
        rows = await bare.run_schema("SELECT keyspace_name, table_name FROM system_schema.tables")
        for other in {name for name, _ in rows if name.startswith(earlier)} - {place.keyspace}:
            await bare.run_schema(f"DROP KEYSPACE {other}")
    finally:
        await bare.close()
    if len([1 for name, _ in rows if name == place.keyspace]) < len(TABLES):
        await schema.apply(place, 1)
        return
    async with emptied(place):
        pass


async def _empty(cassandra: Cassandra, table: str) -> None:
    try:
        rows = await cassandra.run_schema(f"SELECT * FROM {table} LIMIT 1")
    except StoreUnavailable:  # it has so many deleted rows that Cassandra refuses the read
        await cassandra.run_schema(f"TRUNCATE {table}")
        return
    if rows:
        await cassandra.run_schema(f"TRUNCATE {table}")
