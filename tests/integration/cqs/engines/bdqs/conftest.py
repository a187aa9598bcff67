"""Fixtures of the tests of the engine `bdqs`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cqs.engines.bdqs import schema
from cqs.engines.cassandra import schema as shared_schema
from lab.harness import servers
from lab.harness.keyspace import aside


@pytest.fixture(scope="session")
def cassandra_address() -> Iterator[CassandraAddress]:
    """A keyspace with the tables of this engine alone, which is made sooner."""
    host, port = servers.cassandra_address()
    place = CassandraAddress(hosts=(host,), port=port, keyspace=servers.fresh_keyspace())
    replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
    create = f"CREATE KEYSPACE {place.keyspace} WITH replication = {replication}"
    aside(_run(place, create, f"USE {place.keyspace}", *shared_schema.TABLES, *schema.TABLES))
    yield place
    aside(_run(place, f"DROP KEYSPACE {place.keyspace}"))


async def _run(place: CassandraAddress, *texts: str) -> None:
    cassandra = await Cassandra.open(place, keyspace=False)
    try:
        for text in texts:
            await cassandra.run_schema(text)
    finally:
        await cassandra.close()
