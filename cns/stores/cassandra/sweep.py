"""The sweep of subscriptions that were not confirmed in time, and of those of deleted topics.

Workers may sweep simultaneously: each removal is conditional, so only one of them does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cns.stores.cassandra import schema
from cns.stores.cassandra.counts import TopicCounters
from cns.stores.cassandra.expiry import ExpiryEntry, ExpiryIndex
from cns.stores.cassandra.records import IndexedSubscription, SubscriptionRecords
from cns.stores.cassandra.topic_index import TopicIndex
from cns.subscriptions.subscription import IndexState
from cns_common.cassandra.session import Cassandra

REMOVALS_AT_ONCE = 16
TOPICS_AT_ONCE = 100


class SubscriptionSweep:
    def __init__(
        self,
        cassandra: Cassandra,
        records: SubscriptionRecords,
        topic_index: TopicIndex,
        expiry: ExpiryIndex,
        counts: TopicCounters,
        remove: Callable[[IndexedSubscription], Awaitable[bool]],
    ) -> None:
        self._cassandra = cassandra
        self._records = records
        self._topic_index = topic_index
        self._expiry = expiry
        self._counts = counts
        self._remove = remove

    async def sweep_expired(self, now_ms: int, budget: int) -> int:
        """Check up to `budget` expired entries. Return how many subscriptions were removed."""
        return sum([await self._remove_expired(entry) async for entry in self._expiry.due(now_ms, budget)])

    async def _remove_expired(self, entry: ExpiryEntry) -> bool:
        """Remove the entry last: after a crash the next sweep finds it again."""
        found = await self._records.find(entry.id)
        due = found is not None and found.subscription.expires_ms == entry.expires_ms
        removed = due and found is not None and await self._remove(found)
        await self._expiry.leave(entry)
        return removed

    async def sweep_dropped_topics(self, budget: int) -> int:
        """Remove subscriptions of deleted topics. A topic without subscriptions is forgotten, and counts as one."""
        done = 0
        for topic_id, arn, level in await self._cassandra.run(schema.DROPPED, TOPICS_AT_ONCE):
            while done < budget:
                swept = await self._dropped_topic(topic_id, arn, level, min(budget - done, TOPICS_AT_ONCE))
                done += swept
                if swept <= 1:
                    break
        return done

    async def _dropped_topic(self, topic_id: str, arn: str, level: int, n: int) -> int:
        if await self._is_live(topic_id, arn):  # its deletion was started, but did not take place
            return 0
        ids: list[str] = []
        for state in IndexState:
            ids += await self._topic_index.ids(topic_id, level, state, "", n - len(ids)) if len(ids) < n else []
        for start in range(0, len(ids), REMOVALS_AT_ONCE):
            await asyncio.gather(
                *[self._remove_entry(one, topic_id, level) for one in ids[start : start + REMOVALS_AT_ONCE]]
            )
        if ids:
            return len(ids)
        await self._counts.delete_topic(topic_id)
        await self._cassandra.run(schema.FORGET_DROPPED, topic_id)
        return 1

    async def _is_live(self, topic_id: str, arn: str) -> bool:
        return any(live_id == topic_id for live_id, _ in await self._cassandra.run(schema.LEVEL_OF_TOPIC, arn))

    async def _remove_entry(self, subscription_id: str, topic_id: str, level: int) -> None:
        found = await self._records.find(subscription_id)
        if found is None:  # a crash left the entry
            await self._topic_index.remove(topic_id, level, subscription_id)
        else:
            await self._remove(found)
