"""The disk space that the keyspace takes on each Cassandra node, as the node reports it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cns_common.cassandra.background_work import background
from cns_common.cassandra.session import Cassandra
from cns_common.errors import CnsError
from cns_common.metrics.catalogue import CASSANDRA_BYTES
from cns_common.metrics.model import Sample
from cns_common.task_cancellation import cancel_and_wait

READ_INTERVAL_S = 60.0
RETRY_INTERVAL_S = 5.0
"""The interval after a read that failed."""
WORK = "sizes"
"""In `cns_background_statements_total`."""
MIB = 1_048_576


class DiskUsage:
    """The sizes that the last successful `read` returned, by node."""

    def __init__(self, cassandra: Cassandra, keyspace: str) -> None:
        self._cassandra = cassandra
        self._query = (
            f"SELECT mebibytes FROM system_views.disk_usage WHERE keyspace_name = '{keyspace}' ALLOW FILTERING"
        )
        self._bytes: dict[str, int] = {}

    async def read(self) -> None:
        """Ask each node. A node rounds each table up to whole MiB; one that does not answer is left out. Raises
        StoreUnavailable."""
        answers = await self._cassandra.run_on_each_node(self._query)
        self._bytes = {node: sum(mebibytes for (mebibytes,) in rows) * MIB for node, rows in answers.items()}

    def samples(self) -> list[Sample]:
        return [CASSANDRA_BYTES.sample(value, node=node) for node, value in sorted(self._bytes.items())]


@asynccontextmanager
async def open_disk_usage(cassandra: Cassandra, keyspace: str) -> AsyncIterator[DiskUsage]:
    """Read once a minute while the block runs."""
    usage = DiskUsage(cassandra, keyspace)
    following = asyncio.create_task(_follow(usage))
    try:
        yield usage
    finally:
        await cancel_and_wait([following])


async def _follow(usage: DiskUsage) -> None:
    with background(WORK):
        while True:
            try:
                await usage.read()
            except CnsError:
                await asyncio.sleep(RETRY_INTERVAL_S)
            else:
                await asyncio.sleep(READ_INTERVAL_S)
