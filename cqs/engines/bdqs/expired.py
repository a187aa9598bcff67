"""Removes messages that are older than their queue's retention."""

from __future__ import annotations

from collections.abc import Mapping

from cqs.engines.bdqs.ids import MessageKey
from cqs.engines.bdqs.known_queues import KnownQueue
from cqs.engines.bdqs.messages import MessageRow, Messages
from cqs.engines.cassandra.expired import ExpiredList


class ExpiredMessages:
    def __init__(self, messages: Messages, expired: ExpiredList) -> None:
        self._messages = messages
        self._list = expired

    async def remove(self, queue: KnownQueue, rows: Mapping[MessageKey, MessageRow], now_ms: int) -> None:
        await self._list.record(queue.q, [(row.id, row.tenant) for row in rows.values()], now_ms)
        states = {key: row.state for key, row in rows.items()}
        if queue.mode.conditional:
            for key, state in states.items():
                await self._messages.delete_if(queue.q.id, key, state)
        else:
            await self._messages.delete(queue.q.id, states, queue.mode)
