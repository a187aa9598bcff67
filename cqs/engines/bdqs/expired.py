"""Removes messages for their age, and lists those of audited queues until they are forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cns_common.cassandra.session import Cassandra
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.ids import MessageKey
from cqs.engines.bdqs.known_queues import KnownQueue
from cqs.engines.bdqs.messages import MessageRow, Messages
from cqs.engines.contract import ExpiredMessage


class ExpiredMessages:
    def __init__(self, cassandra: Cassandra, messages: Messages) -> None:
        self._cassandra = cassandra
        self._messages = messages

    async def remove(self, queue: KnownQueue, rows: Mapping[MessageKey, MessageRow], now_ms: int) -> None:
        """List them first: a crash may list a message twice."""
        audit = queue.q.audit
        if audit:
            await self._cassandra.run_each(
                schema.ADD_EXPIRED, [(now_ms, audit, row.id, row.tenant or "") for row in rows.values()]
            )
        states = {key: row.state for key, row in rows.items()}
        if queue.mode.conditional:
            for key, state in states.items():
                await self._messages.delete_if(queue.q.id, key, state)
        else:
            await self._messages.delete(queue.q.id, states, queue.mode)

    async def some(self, n: int) -> list[ExpiredMessage]:
        return [ExpiredMessage(*row) for row in await self._cassandra.run(schema.LIST_EXPIRED, n)]

    async def forget(self, messages: Sequence[ExpiredMessage]) -> None:
        await self._cassandra.run_each(schema.FORGET_EXPIRED, [(one.at_ms, one.audit, one.id) for one in messages])
