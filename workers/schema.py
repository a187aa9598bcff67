"""All tables of the cluster form, gathered from those who keep them, and the steps that make and compare them."""

from __future__ import annotations

import cns.stores.cassandra_schema
import common.aws.accounts_cassandra
import cqs.engines.cqs.fifo.schema
import cqs.engines.cqs.schema
import cqs.stores.cassandra_moves
import cqs.stores.cassandra_schema
import workers.cluster_control
import workers.leases_cassandra
from common.cassandra import Cassandra, Place
from common.cassandra_schema import differences, keyspace_text, read_table, read_tables

TABLES: tuple[str, ...] = (
    *common.aws.accounts_cassandra.TABLES,
    *cqs.stores.cassandra_schema.TABLES,
    *cqs.stores.cassandra_moves.TABLES,
    *cqs.engines.cqs.schema.TABLES,
    *cqs.engines.cqs.fifo.schema.TABLES,
    *cns.stores.cassandra_schema.TABLES,
    *workers.cluster_control.TABLES,
    *workers.leases_cassandra.TABLES,
)


async def apply(place: Place, replication: int) -> None:
    """Make the keyspace and the tables that are missing; what is there stays as it is."""
    bare = await Cassandra.open(place, keyspace=False)
    try:
        await bare.run_schema(keyspace_text(place, replication))
    finally:
        await bare.close()
    cassandra = await Cassandra.open(place)
    try:
        for text in TABLES:
            await cassandra.run_schema(text)
    finally:
        await cassandra.close()


async def check(place: Place, replication: int) -> list[str]:
    """Each difference between what is declared and what is there."""
    cassandra = await Cassandra.open(place, keyspace=False)
    try:
        return await differences(cassandra, place, TABLES, replication)
    finally:
        await cassandra.close()


async def missing_tables(cassandra: Cassandra, keyspace: str) -> list[str]:
    """The names of those that a start would need."""
    there = await read_tables(cassandra, keyspace)
    return [name for name in (read_table(text).name for text in TABLES) if name not in there]


def show(place: Place, replication: int) -> list[str]:
    """The statements that `apply` runs, for an operator who runs them."""
    return [keyspace_text(place, replication), f"USE {place.keyspace}", *TABLES]
