"""An index of a topic's subscriptions, by index state and sorted by id, in partitions of bounded size.

A subscription is entered at the *level* that its topic has at that time, in the bucket that is named by the first
`level` digits of its id: there is one bucket at level 0, 16 at level 1 and 256 at level 2. Entries stay where they are
when the topic reaches the next level; readers merge the levels. A page of a level spans few buckets, because the level
below it is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from cns.stores.cassandra import schema
from cns.subscriptions.subscription import IndexState, Subscription
from cns_common.cassandra.session import Cassandra

BUCKET_ROWS = 4_000
"""Subscriptions in a bucket when its level is full, about."""
LEVEL_MAX = 3
FAN = 16
"""Buckets of a level per bucket of the level below: one for each hexadecimal digit."""
BUCKETS_AT_ONCE = 16


def level_for(subscriptions: int, bucket_rows: int) -> int:
    """The level for the next subscription. An approximate count is sufficient."""
    level = 0
    room = bucket_rows
    while level < LEVEL_MAX and subscriptions >= room:
        level += 1
        room += bucket_rows * FAN**level
    return level


class TopicIndex:
    """The timestamp of its writes is the record's version (see `cns.stores.cassandra.schema`)."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def enter(self, subscription: Subscription, level: int) -> None:
        """Enter a subscription in its state. Other entries stay: one too many does no harm."""
        await self._cassandra.run(
            schema.ENTER_STATE,
            *_bucket(subscription, level),
            subscription.index_state,
            subscription.id,
            subscription.version,
        )

    async def remove_other_states(self, subscription: Subscription, level: int, before: IndexState) -> None:
        """Remove the entries in other states, in one write, because all are in one partition.

        A subscription that gets a filter stays CONFIRMED, too, for LINGER_S: a publish under way may look there.
        """
        bucket = _bucket(subscription, level)
        lingering = (before, subscription.index_state) == (IndexState.CONFIRMED, IndexState.FILTERED)
        if lingering:
            row = (*bucket, IndexState.CONFIRMED, subscription.id, subscription.version)
            await self._cassandra.run(schema.LINGER_IN_STATE, *row)
        staying = {subscription.index_state, IndexState.CONFIRMED} if lingering else {subscription.index_state}
        others = [state for state in IndexState if state not in staying]
        await self._leave([(subscription.version, *bucket, state, subscription.id) for state in others])

    async def remove(self, topic_id: str, level: int, subscription_id: str) -> None:
        """Remove all entries of a subscription, in any state, at any level up to the given one."""
        for each in range(level + 1):
            bucket = (topic_id, bucket_of(each, subscription_id))
            await self._leave([(schema.GONE, *bucket, state, subscription_id) for state in IndexState])

    async def _leave(self, rows: Sequence[Sequence[object]]) -> None:
        await self._cassandra.run_batch([(schema.LEAVE_STATE, row) for row in rows], logged=False)

    async def ids(self, topic_id: str, level: int, state: IndexState, after: str, n: int) -> list[str]:
        """Up to `n` ids after the given one. `level` is the level that the topic has reached."""
        found = await self._read_bucket(topic_id, "0", state, after, n)
        for deeper in range(1, level + 1):
            last = found[n - 1] if len(found) >= n else ""
            found = sorted(found + await self._read_level(topic_id, deeper, state, after, last, n))[:n]
        return found

    async def _read_level(
        self, topic_id: str, level: int, state: IndexState, after: str, last: str, n: int
    ) -> list[str]:
        """Ids of one level, up to `last` ('': no bound)."""
        found: list[str] = []
        buckets = list(_buckets(level, after, last))
        for start in range(0, len(buckets), BUCKETS_AT_ONCE):
            some = buckets[start : start + BUCKETS_AT_ONCE]
            pages = await asyncio.gather(*[self._read_bucket(topic_id, bucket, state, after, n) for bucket in some])
            found += [subscription_id for page in pages for subscription_id in page]
            if len(found) >= n:
                break
        return found

    async def _read_bucket(self, topic_id: str, bucket: str, state: IndexState, after: str, n: int) -> list[str]:
        rows = await self._cassandra.run(schema.IDS_OF_TOPIC, topic_id, bucket, state, after, n)
        return [subscription_id for (subscription_id,) in rows]


def bucket_of(level: int, subscription_id: str) -> str:
    return f"{level}{subscription_id[:level]}"


def _bucket(subscription: Subscription, level: int) -> tuple[str, str]:
    return subscription.topic_id, bucket_of(level, subscription.id)


def _buckets(level: int, after: str, last: str) -> Iterator[str]:
    """The buckets of a level for ids from `after` to `last`."""
    first_number = int(after[:level] or "0", 16)
    last_number = int(last[:level], 16) if last else FAN**level - 1
    for number in range(first_number, last_number + 1):
        yield f"{level}{number:0{level}x}"
