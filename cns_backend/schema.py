"""All tables of the cluster form, and the commands that create them and compare them with the keyspace."""

from __future__ import annotations

import cns.stores.cassandra.archive_schema
import cns.stores.cassandra.mobile_schema
import cns.stores.cassandra.outbox
import cns.stores.cassandra.schema
import cns_backend.sites.schema
import cns_backend.stores.cassandra.control
import cns_backend.stores.cassandra.leases
import cns_backend.stores.cassandra.pool_sizes
import cns_common.aws.auth.accounts_cassandra
import cqs.engines.cassandra.schema
import cqs.stores.cassandra.move_tasks
import cqs.stores.cassandra.schema
from cns_backend.engines import CLUSTER_ENGINES
from cns_common.aws.auth.accounts_cassandra import enter_all_names
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.schema import additions, alteration, differences, keyspace_text, read_table, read_tables
from cns_common.cassandra.session import Cassandra

TABLES: tuple[str, ...] = (
    *cns_common.aws.auth.accounts_cassandra.TABLES,
    *cqs.stores.cassandra.schema.TABLES,
    *cqs.stores.cassandra.move_tasks.TABLES,
    *cqs.engines.cassandra.schema.TABLES,
    *(table for kind in CLUSTER_ENGINES.values() for table in kind().tables),
    *cns.stores.cassandra.schema.TABLES,
    *cns.stores.cassandra.mobile_schema.TABLES,
    *cns.stores.cassandra.outbox.TABLES,
    *cns.stores.cassandra.archive_schema.TABLES,
    *cns_backend.stores.cassandra.control.TABLES,
    *cns_backend.stores.cassandra.leases.TABLES,
    *cns_backend.stores.cassandra.pool_sizes.TABLES,
    *cns_backend.sites.schema.TABLES,
)


async def apply(address: CassandraAddress, replication: int) -> None:
    """Create the missing keyspace, tables and columns, update the options of existing tables, and enter the names of
    all account owners, which an earlier version did not store."""
    bare = await Cassandra.open(address, keyspace=False)
    try:
        await bare.run_schema(keyspace_text(address, replication))
    finally:
        await bare.close()
    cassandra = await Cassandra.open(address)
    try:
        before = await read_tables(cassandra, address.keyspace)
        for text in TABLES:
            await cassandra.run_schema(text)
        for text in (await _additions(cassandra, address.keyspace)).values():
            await cassandra.run_schema(text)
        for text in TABLES:
            existing = before.get(read_table(text).name)
            if existing is not None and (altering := alteration(text, existing)) is not None:
                await cassandra.run_schema(altering)
        if "accounts" in before:  # reads of a new keyspace may lack replicas
            await enter_all_names(cassandra)
    finally:
        await cassandra.close()


async def check(address: CassandraAddress, replication: int) -> list[str]:
    """The differences between the declared and the existing tables."""
    cassandra = await Cassandra.open(address, keyspace=False)
    try:
        return await differences(cassandra, address, TABLES, replication)
    finally:
        await cassandra.close()


async def missing(cassandra: Cassandra, keyspace: str) -> list[str]:
    """The tables and columns that `apply` would create."""
    there = await read_tables(cassandra, keyspace)
    names = table_names()
    columns = await _additions(cassandra, keyspace)
    return [*(f"table {name}" for name in names if name not in there), *(f"column {name}" for name in columns)]


def table_names() -> list[str]:
    return [read_table(text).name for text in TABLES]


async def _additions(cassandra: Cassandra, keyspace: str) -> dict[str, str]:
    """Columns that are missing in tables of an older version."""
    there = await read_tables(cassandra, keyspace)
    found: dict[str, str] = {}
    for declared in (read_table(text) for text in TABLES):
        if declared.name in there:
            found |= additions(declared, there[declared.name])
    return found


def show(address: CassandraAddress, replication: int) -> list[str]:
    """The statements of `apply`, for an operator to run."""
    return [keyspace_text(address, replication), f"USE {address.keyspace}", *TABLES]
