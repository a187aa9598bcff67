"""The retention periods of queues, as last set by SetQueueAttributes.

An engine reads a queue's period before it removes expired messages: another process may have raised the one that this
process knows. Raising it after that read does not keep a message that was too old before.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from cns_common.cassandra.session import Cassandra, Consistency
from cqs.engines.cassandra import schema
from cqs.engines.contract import QueueRef


class QueueInUse(Protocol):
    q: QueueRef


class RetentionPeriods:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def record(self, q: QueueRef) -> None:
        """Record the queue's period, unless that of newer attributes is recorded."""
        await self._cassandra.run(schema.SET_RETENTION, q.id, q.retention_ms, q.version, q.version + 1)

    async def forget(self, queue_id: str) -> None:
        """Remove the record of a dropped queue."""
        await self._cassandra.run(schema.FORGET_RETENTION, queue_id)

    async def current(self, q: QueueRef, level: Consistency = Consistency.QUORUM) -> QueueRef:
        """Read the queue's period. Returns `q` with it, if it is of newer attributes."""
        find = schema.FIND_RETENTION_AT_ONE if level is Consistency.ONE else schema.FIND_RETENTION
        rows = await self._cassandra.run(find, q.id)
        return replace(q, retention_ms=rows[0][0]) if rows and rows[0][1] > q.version else q

    async def oldest_ms(self, queue: QueueInUse, now_ms: int, level: Consistency = Consistency.QUORUM) -> int:
        """Read the queue's period and note it in the queue. Messages born until the time returned are too old."""
        queue.q = await self.current(queue.q, level)
        return now_ms - queue.q.retention_ms
