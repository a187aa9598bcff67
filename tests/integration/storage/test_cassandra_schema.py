"""Keyspace and tables of the cluster form: creating them again changes nothing, and differences are reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.schema import Table, read_table
from cns_common.cassandra.session import Cassandra
from tests.private_servers.keyspace import keyspace

OPTIONS = {"default_time_to_live": "0", "gc_grace_seconds": "864000", "compaction": ""}


@pytest.mark.parametrize(
    ("text", "table"),
    [
        (
            "CREATE TABLE IF NOT EXISTS a(b text PRIMARY KEY, c counter)",
            Table(name="a", columns={"b": "text partition key 0", "c": "counter regular"}, options=OPTIONS),
        ),
        (
            "CREATE TABLE IF NOT EXISTS a (b text, c map<text, int>, d int, e int, f blob, PRIMARY KEY ((b, d), e, f))"
            " WITH CLUSTERING ORDER BY (e DESC, f ASC) AND default_time_to_live = 5"
            " AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': 6}",
            Table(
                name="a",
                columns={
                    "b": "text partition key 0",
                    "c": "map<text, int> regular",
                    "d": "int partition key 1",
                    "e": "int clustering key 0 desc",
                    "f": "blob clustering key 1 asc",
                },
                options={**OPTIONS, "default_time_to_live": "5", "compaction": "TimeWindowCompactionStrategy"},
            ),
        ),
    ],
)
def test_tables_of_a_schema_text(text: str, table: Table) -> None:
    assert read_table(text) == table


def test_every_table_is_declared_once() -> None:
    names = [read_table(text).name for text in schema.TABLES]
    assert len(set(names)) == len(names) > 20


@pytest.mark.extended
async def test_each_difference_is_a_line(cassandra_address: CassandraAddress) -> None:
    with keyspace() as place:
        assert await schema.check(place, 1) == []
        cassandra = await Cassandra.open(place)
        for change in (
            "ALTER TABLE queues DROP target_arn",
            "ALTER TABLE queues ADD stray int",
            "ALTER TABLE queue_deletions WITH default_time_to_live = 1",
            "DROP TABLE leases",
        ):
            await cassandra.run_schema(change)
        await cassandra.close()
        assert await schema.check(place, 2) == [
            f"keyspace {place.keyspace} has 1 replicas in datacenter1, not 2",
            "column queues.stray is int regular, not wanted",
            "column queues.target_arn is missing, not text regular",
            "table queue_deletions: default_time_to_live is 1, not 172800",
            "table leases is missing",
        ]
        await schema.apply(place, 1)
        assert await schema.check(place, 1) == [
            "column queues.stray is int regular, not wanted",
            "table queue_deletions: default_time_to_live is 1, not 172800",
        ]
    missing = replace(cassandra_address, keyspace="absent")
    assert await schema.check(missing, 1) == ["keyspace absent is missing"]
