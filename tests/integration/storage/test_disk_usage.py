"""The size of the keyspace on each Cassandra node, as the metrics have it."""

from __future__ import annotations

import asyncio
import os

import pytest

from cns_backend.stores.cassandra.disk_usage import MIB, DiskUsage
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import StoreUnavailable
from lab.harness.waiting import PATIENCE_S

ROWS = 64


async def test_it_grows_with_what_is_stored(cassandra_address: CassandraAddress) -> None:
    cassandra = await Cassandra.open(cassandra_address)
    usage = DiskUsage(cassandra, cassandra_address.keyspace)
    other = DiskUsage(cassandra, "no_keyspace")
    await usage.read()
    (before,) = usage.samples()
    assert dict(before.labels) == {"node": cassandra_address.hosts[0]}
    await cassandra.run_schema(  # makes Cassandra write the table to disk soon, without a JMX command
        "CREATE TABLE filled (id int PRIMARY KEY, value blob) WITH memtable_flush_period_in_ms = 250"
        " AND compression = {'enabled': false}"
    )
    insert = Statement("INSERT INTO filled (id, value) VALUES (?, ?)")
    await cassandra.run_each(insert, [(number, os.urandom(MIB // 16)) for number in range(ROWS)])
    async with asyncio.timeout(PATIENCE_S):
        while usage.samples()[0].value < before.value + ROWS // 16 * MIB:
            await asyncio.sleep(0.1)
            await usage.read()
    await cassandra.run_schema("DROP TABLE filled")
    await other.read()
    assert [sample.value for sample in other.samples()] == [0]
    await cassandra.close()


async def test_without_an_answer_the_last_size_stays(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    cassandra = await Cassandra.open(cassandra_address)
    usage = DiskUsage(cassandra, cassandra_address.keyspace)
    await usage.read()
    known = usage.samples()
    monkeypatch.setattr(cassandra._connection.cluster.metadata, "all_hosts", list)
    with pytest.raises(StoreUnavailable, match="no Cassandra node answers"):
        await usage.read()
    assert usage.samples() == known
    await cassandra.close()
