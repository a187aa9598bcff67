"""Messages of audited queues that were removed for their age, until they are forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from cns_common.cassandra.session import Cassandra
from cqs.engines.cassieq import schema
from cqs.engines.contract import ExpiredMessage, QueueRef


class ExpiredMessages:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def record(self, q: QueueRef, messages: Sequence[tuple[str, str]], now_ms: int) -> None:
        """Call it with (id, tenant) of messages before they are removed."""
        if q.audit and messages:
            await self._cassandra.run_each(
                schema.ADD_EXPIRED, [(now_ms, q.audit, message_id, tenant or "") for message_id, tenant in messages]
            )

    async def some(self, n: int) -> list[ExpiredMessage]:
        return [ExpiredMessage(*row) for row in await self._cassandra.run(schema.LIST_EXPIRED, n)]

    async def forget(self, messages: Sequence[ExpiredMessage]) -> None:
        if messages:
            await self._cassandra.run_each(schema.FORGET_EXPIRED, [(one.at_ms, one.audit, one.id) for one in messages])
