"""A keyspace with all tables, made once for a test session, and emptied for tests that need it empty."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from cns_backend import schema
from cns_common.cassandra import connection, session
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.errors import StoreUnavailable
from lab.harness.servers import cassandra_address, fresh_keyspace
from lab.harness.waiting import PATIENCE_S

TABLES = tuple(schema.table_names())


@contextmanager
def patient_statements() -> Iterator[None]:
    """Statements take however long they take: a Cassandra that stalls with its machine for seconds is no outage."""
    with pytest.MonkeyPatch.context() as changed:
        for limit in ("STATEMENT_S", "CONDITIONAL_S", "PREPARE_S", "PROBE_S", "SCHEMA_S"):
            changed.setattr(session, limit, PATIENCE_S)
        for limit in ("CONNECT_TIMEOUT_S", "HEARTBEAT_S"):
            changed.setattr(connection, limit, PATIENCE_S)
        yield


@contextmanager
def keyspace() -> Iterator[CassandraAddress]:
    host, port = cassandra_address()
    place = CassandraAddress(hosts=(host,), port=port, keyspace=fresh_keyspace())
    with patient_statements():
        aside(schema.apply(place, 1))
    try:
        yield place
    finally:
        with patient_statements():
            aside(_drop(place))


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


async def _empty(cassandra: Cassandra, table: str) -> None:
    try:
        rows = await cassandra.run_schema(f"SELECT * FROM {table} LIMIT 1")
    except StoreUnavailable:  # it has so many deleted rows that Cassandra refuses the read
        await cassandra.run_schema(f"TRUNCATE {table}")
        return
    if rows:
        await cassandra.run_schema(f"TRUNCATE {table}")


async def _drop(place: CassandraAddress) -> None:
    cassandra = await Cassandra.open(place, keyspace=False)
    await cassandra.run_schema(f"DROP KEYSPACE IF EXISTS {place.keyspace}")
    await cassandra.close()
