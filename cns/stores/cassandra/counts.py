"""Approximate numbers of topics and subscriptions, in Cassandra's counters, for quotas and attributes."""

from __future__ import annotations

from typing import NamedTuple

import structlog

from cns.stores.cassandra import schema
from cns.subscriptions.subscription import Subscription, SubscriptionCounts, SubscriptionState
from cns.topics.topic import Topic
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import OutcomeUnknown, StoreUnavailable

log = structlog.get_logger(__name__)


class AccountCounts(NamedTuple):
    topics: int = 0
    fifo_topics: int = 0
    pending: int = 0
    filter_policies: int = 0


class TopicCounters:
    """A counter update cannot be repeated. If its outcome is unknown, that is logged, and the operation succeeds."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def topic_counts(self, topic_id: str) -> SubscriptionCounts:
        rows = await self._cassandra.run(schema.COUNTS, topic_id)
        return SubscriptionCounts(*(max(count or 0, 0) for count in rows[0])) if rows else SubscriptionCounts()

    async def account_counts(self, account: str) -> AccountCounts:
        rows = await self._cassandra.run(schema.COUNTS_OF_ACCOUNT, account)
        return AccountCounts(*(max(count or 0, 0) for count in rows[0])) if rows else AccountCounts()

    async def count_topic(self, topic: Topic, change: int) -> None:
        await self._add(schema.COUNT_ACCOUNT, change, change * topic.fifo, 0, 0, topic.account)

    async def count_subscription(self, before: Subscription | None, after: Subscription | None) -> None:
        """Count the change of a subscription from one record to another; None stands for no record."""
        subscription = after or before
        changes = [now - was for was, now in zip(_contributions(before), _contributions(after), strict=True)]
        if subscription is None or not any(changes):
            return
        await self._add(schema.COUNT, *changes, subscription.topic_id)
        pending, policies = changes[SubscriptionState.PENDING], changes[-1]
        if pending or policies:
            await self._add(schema.COUNT_ACCOUNT, 0, 0, pending, policies, subscription.owner)

    async def delete_topic(self, topic_id: str) -> None:
        """Delete the counters of a deleted topic. Cassandra does not support further updates of a deleted counter."""
        await self._cassandra.run(schema.END_COUNTS, topic_id)

    async def _add(self, statement: Statement, *values: object) -> None:
        try:
            await self._cassandra.run(statement, *values)
        except (StoreUnavailable, OutcomeUnknown) as error:
            log.warning("subscription_count.update_failed", values=values, error=str(error))


def _contributions(subscription: Subscription | None) -> list[int]:
    """The contribution to each counter: by state, and with a filter policy."""
    if subscription is None:
        return [0] * (len(SubscriptionState) + 1)
    return [*(int(subscription.state is state) for state in SubscriptionState), int(bool(subscription.filter_policy))]
