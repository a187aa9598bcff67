"""How many topics and subscriptions there are: Cassandra's counters, close to the truth, for quotas and attributes."""

from __future__ import annotations

import structlog

from cns.stores import cassandra_schema as schema
from cns.subscription import State, SubscriptionCounts
from common.cassandra import Cassandra, Statement
from common.errors import OutcomeUnknown, StoreUnavailable

log = structlog.get_logger(__name__)


class Counts:
    """A counter cannot be repeated: where its change may be lost, that is logged, and what it counts goes on."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def of_topic(self, topic_id: str) -> SubscriptionCounts:
        rows = await self._cassandra.run(schema.COUNTS, topic_id)
        return SubscriptionCounts(*(max(count or 0, 0) for count in rows[0])) if rows else SubscriptionCounts()

    async def of_account(self, account: str) -> tuple[int, int]:
        """Topics, and pending subscriptions."""
        rows = await self._cassandra.run(schema.COUNTS_OF_ACCOUNT, account)
        topics, pending = rows[0] if rows else (0, 0)
        return max(topics or 0, 0), max(pending or 0, 0)

    async def count_topic(self, account: str, change: int) -> None:
        await self._add(schema.COUNT_ACCOUNT, change, 0, account)

    async def count_subscription(self, topic_id: str, owner: str, before: State | None, after: State | None) -> None:
        """One subscription went from a state to another; None: from, or to, nowhere."""
        if before is after:
            return
        changes = [(after is state) - (before is state) for state in State]
        await self._add(schema.COUNT, *changes, topic_id)
        if changes[State.PENDING]:
            await self._add(schema.COUNT_ACCOUNT, 0, changes[State.PENDING], owner)

    async def end(self, topic_id: str) -> None:
        """The topic is gone; a counter deleted must not be counted on again."""
        await self._cassandra.run(schema.END_COUNTS, topic_id)

    async def _add(self, statement: Statement, *values: object) -> None:
        try:
            await self._cassandra.run(statement, *values)
        except (StoreUnavailable, OutcomeUnknown) as error:
            log.warning("count.uncertain", values=values, error=str(error))
