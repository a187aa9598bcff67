"""The expired messages of audited queues, until their events are written: one table for each engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cns_common.cassandra.session import Cassandra, Statement
from cqs.engines.contract import ExpiredMessage, QueueRef


class ExpiredList:
    """`table` has the columns one, at_ms, audit, id and tenant, a time to live, and gc_grace_seconds 0, so that deleted
    rows do not slow reads down. A row that reappears because a node missed its delete repeats an event."""

    def __init__(self, cassandra: Cassandra, table: str) -> None:
        self._cassandra = cassandra
        self._add = Statement(f"INSERT INTO {table} (one, at_ms, audit, id, tenant) VALUES (1, ?, ?, ?, ?)")
        self._list = Statement(f"SELECT at_ms, audit, id, tenant FROM {table} WHERE one = 1 LIMIT ?")
        self._forget = Statement(f"DELETE FROM {table} WHERE one = 1 AND at_ms = ? AND audit = ? AND id = ?")

    async def record(self, q: QueueRef, messages: Iterable[tuple[str, str | None]], now_ms: int) -> None:
        """Record (id, tenant or group) of messages before they are removed: after a crash a message may be listed
        twice."""
        rows = [(now_ms, q.audit, message_id, tenant or "") for message_id, tenant in messages] if q.audit else []
        if rows:
            await self._cassandra.run_each(self._add, rows)

    async def next_batch(self, n: int) -> list[ExpiredMessage]:
        return [ExpiredMessage(*row) for row in await self._cassandra.run(self._list, n)]

    async def forget(self, messages: Sequence[ExpiredMessage]) -> None:
        if messages:
            await self._cassandra.run_each(self._forget, [(one.at_ms, one.audit, one.id) for one in messages])
