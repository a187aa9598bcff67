"""Removes messages that are older than their queue's retention."""

from __future__ import annotations

from collections.abc import Mapping

from cqs.engines.bdqs.ids import MessageKey
from cqs.engines.bdqs.known_queues import BdqsKnownQueue
from cqs.engines.bdqs.messages import BdqsMessageRow, Messages
from cqs.engines.bdqs.quorum_fallback import QuorumFallback
from cqs.engines.cassandra.expired import ExpiredList
from cqs.engines.cassandra.retention import RetentionPeriods


class BdqsExpiredMessages:
    def __init__(
        self, messages: Messages, expired: ExpiredList, retentions: RetentionPeriods, shared: QuorumFallback
    ) -> None:
        self._messages = messages
        self._list = expired
        self._retentions = retentions
        self._shared = shared

    async def among(
        self, queue: BdqsKnownQueue, rows: Mapping[MessageKey, BdqsMessageRow], now_ms: int
    ) -> dict[MessageKey, BdqsMessageRow]:
        """Return the messages older than the retention period, which is read from Cassandra if any seems to be."""
        oldest_ms = now_ms - queue.q.retention_ms
        if any(row.born_at_ms <= oldest_ms for row in rows.values()):
            oldest_ms = await self._shared.run(
                queue.q.id, queue.mode.level, lambda level: self._retentions.oldest_ms(queue, now_ms, level)
            )
        return {key: row for key, row in rows.items() if row.born_at_ms <= oldest_ms}

    async def remove(self, queue: BdqsKnownQueue, rows: Mapping[MessageKey, BdqsMessageRow], now_ms: int) -> None:
        await self._list.record(queue.q, [(row.id, row.tenant) for row in rows.values()], now_ms)
        states = {key: row.state for key, row in rows.items()}
        if queue.mode.conditional:
            for key, state in states.items():
                await self._messages.delete_if(queue.q.id, key, state)
        else:
            await self._messages.delete(queue.q.id, states, queue.mode)
