"""The uses of queues by processes, in Cassandra: owners find here their queues and what a dead process left undone.

Queues are in slices by a hash of their id; a slice has one owner, so each row is read by one process.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra
from cqs.engines.cluster.ownership import schema
from cqs.engines.contract import QueueRef

SLICES = 64
NOBODY = ""
"""Stands in the place of a process: the queue has messages, although no live process uses it."""


class QueueUse(NamedTuple):
    q: QueueRef
    node: str


def slice_of(queue_id: str) -> int:
    return zlib.crc32(queue_id.encode()) % SLICES


def slice_key(number: int) -> str:
    """The key of a slice for `LiveProcesses.owner_of`."""
    return f"slice-{number}"


class UsedQueues:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def add(self, q: QueueRef, node: str) -> None:
        await self._cassandra.run(
            schema.USE,
            slice_of(q.id),
            q.id,
            node,
            q.fifo,
            q.retention_ms,
            q.audit,
            q.version,
            schema.USE_TTL_S,
        )

    async def remove(self, queue_id: str, node: str) -> None:
        await self._cassandra.run(schema.REMOVE_USER, slice_of(queue_id), queue_id, node)

    async def read(self, number: int) -> list[QueueUse]:
        """All uses of a slice's queues, sorted by queue."""
        uses: list[QueueUse] = []
        after = ("", "")
        while True:
            rows = await self._cassandra.run(schema.LIST_USERS, number, *after)
            uses += [
                QueueUse(QueueRef(queue_id, fifo, retention_ms, audit=audit, version=version), node)
                for queue_id, node, fifo, retention_ms, audit, version in rows
            ]
            if len(rows) < schema.PAGE_ROWS:
                return uses
            after = rows[-1][0], rows[-1][1]
