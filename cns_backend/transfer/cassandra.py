"""The side of a cluster: a keyspace of Cassandra, and Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cns_backend.backend import Backend
from cns_backend.cluster import open_cluster_backend
from cns_backend.engines import DEFAULT_CLUSTER_ENGINE
from cns_backend.schema import table_names
from cns_backend.stores.cassandra.control import CassandraReports
from cns_backend.transfer.side import Kind, Row, Side
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.configuration.settings import Settings
from cqs.engines.cluster.ownership.schema import LIST_PROCESSES
from cqs.internal_queues import internal_ref

WRITES_AT_ONCE = 64
HOUSEKEEPING = frozenset(
    (
        "active_site",
        "cluster_state",
        "cqs_cache",
        "cqs_living",
        "cqs_processes",
        "cqs_queue_users",
        "leases",
        "process_reports",
        "site_gaps",
        "site_writers",
    )
)
"""Tables of what processes say about themselves: their rows are no content."""
_JOBS = internal_ref("").id
_BUCKETS = Statement("SELECT DISTINCT queue FROM cqs_buckets")
_SEGMENTS = Statement("SELECT DISTINCT queue, segment FROM cqs_fifo_log")
_MESSAGES = Statement("SELECT seq FROM cqs_messages")


class CassandraSide(Side):
    """Queues can be read and messages counted before it is `opened`; the rest needs its backend."""

    engine = DEFAULT_CLUSTER_ENGINE

    def __init__(self, cassandra: Cassandra, settings: Settings) -> None:
        self.where = keyspace_name(settings)
        self.cassandra = cassandra
        self.backend: Backend
        self._settings = settings

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with open_cluster_backend(self._settings, moving=True) as self.backend:
            yield

    async def read(self, kind: Kind) -> AsyncIterator[list[Row]]:
        if kind.pages is not None:
            async for page in kind.pages(self):
                yield page
            return
        rows: list[Row] = []
        async for row in self.cassandra.scan(Statement(kind.cassandra or kind.embedded)):
            rows.append(tuple(row))
            if len(rows) == WRITES_AT_ONCE:
                yield await self._live(kind, rows)
                rows = []
        yield await self._live(kind, rows)

    async def _live(self, kind: Kind, rows: list[Row]) -> list[Row]:
        live = kind.live
        if live is not None:
            found = await asyncio.gather(*[live(self.cassandra, self.backend, row) for row in rows])
            rows = [row for row in found if row is not None]
        return [kind.plain(row) for row in rows]

    async def write(self, kind: Kind, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), WRITES_AT_ONCE):
            some = rows[start : start + WRITES_AT_ONCE]
            if kind.run is not None:
                await asyncio.gather(*[kind.run(self.cassandra, row) for row in some])
            else:
                assert kind.put is not None
                await asyncio.gather(*[kind.put(self, row) for row in some])

    async def job_queues(self) -> list[str]:
        ids = {str(row[0]) for query in (_BUCKETS, _SEGMENTS) async for row in self.cassandra.scan(query)}
        return sorted(one.removeprefix(_JOBS) for one in ids if one.startswith(_JOBS))

    async def count_messages(self) -> int:
        n = 0
        async for _ in self.cassandra.scan(_MESSAGES):
            n += 1
        return n


def keyspace_name(settings: Settings) -> str:
    return f"keyspace {settings.cassandra_keyspace}"


async def living_processes(cassandra: Cassandra) -> list[str]:
    """The names of processes of the cluster that live, or died seconds ago."""
    members = [str(node) for node, departed in await cassandra.run(LIST_PROCESSES) if not departed]
    state = await CassandraReports(cassandra).state()
    return members + [report.process for report in state.reports]


async def first_content(cassandra: Cassandra) -> str:
    """The first table that has a row; '' if the keyspace is empty."""
    return next(iter(await _filled(cassandra)), "")


async def clear(cassandra: Cassandra) -> None:
    """Remove what a run that was cut off wrote."""
    for table in await _filled(cassandra):
        await cassandra.run_schema(f"TRUNCATE {table}")


async def _filled(cassandra: Cassandra) -> list[str]:
    tables = [table for table in table_names() if table not in HOUSEKEEPING]
    found = await asyncio.gather(*[cassandra.run(Statement(f"SELECT * FROM {table} LIMIT 1")) for table in tables])
    return [table for table, rows in zip(tables, found, strict=True) if rows]
