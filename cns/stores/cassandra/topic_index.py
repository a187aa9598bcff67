"""Which subscriptions a topic has, by their index state and in the order of their ids, in partitions that stay small.

A subscription is entered at its topic's *level* of that time, in the bucket that the first `level` digits of its id
name: one bucket at level 0, sixteen at level 1, 256 at level 2. It stays there when the topic reaches the next level,
so nothing is ever moved; readers merge the levels. Below a full level, a page of the next one spans few buckets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from cns.stores.cassandra import schema
from cns.subscriptions.subscription import IndexState, Subscription
from cns_common.cassandra.session import Cassandra

BUCKET_ROWS = 4_000
"""About how many subscriptions are in a bucket when its level is full."""
LEVEL_MAX = 3
FAN = 16
"""The digits of an id are hexadecimal."""
BUCKETS_AT_ONCE = 16


def level_for(subscriptions: int, bucket_rows: int) -> int:
    """The level at which the next subscription is entered. A count that is a little wrong does no harm."""
    level = 0
    room = bucket_rows
    while level < LEVEL_MAX and subscriptions >= room:
        level += 1
        room += bucket_rows * FAN**level
    return level


class TopicIndex:
    """Its writes are dated by the record's version (see `cns.stores.cassandra.schema`)."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def enter(self, subscription: Subscription, level: int) -> None:
        """In the state it has, beside any other: to be found in one too many is harmless."""
        await self._cassandra.run(
            schema.ENTER_STATE,
            *_bucket(subscription, level),
            subscription.index_state,
            subscription.id,
            subscription.version,
        )

    async def leave_others(self, subscription: Subscription, level: int, before: IndexState) -> None:
        """The places that it is not in. One write: all places of a subscription lie in one partition. Among those that
        get everything one that gets a filter stays for a while: a publish may look there that was begun before."""
        bucket = _bucket(subscription, level)
        lingering = (before, subscription.index_state) == (IndexState.CONFIRMED, IndexState.FILTERED)
        if lingering:
            row = (*bucket, IndexState.CONFIRMED, subscription.id, subscription.version)
            await self._cassandra.run(schema.LINGER_IN_STATE, *row)
        staying = {subscription.index_state, IndexState.CONFIRMED} if lingering else {subscription.index_state}
        others = [state for state in IndexState if state not in staying]
        await self._leave([(subscription.version, *bucket, state, subscription.id) for state in others])

    async def remove(self, topic_id: str, level: int, subscription_id: str) -> None:
        """Whatever its state, and at whatever level up to the given one it was entered."""
        for each in range(level + 1):
            bucket = (topic_id, bucket_of(each, subscription_id))
            await self._leave([(schema.GONE, *bucket, state, subscription_id) for state in IndexState])

    async def _leave(self, rows: Sequence[Sequence[object]]) -> None:
        await self._cassandra.run_batch([(schema.LEAVE_STATE, row) for row in rows], logged=False)

    async def ids(self, topic_id: str, level: int, state: IndexState, after: str, n: int) -> list[str]:
        """Up to `n` ids after the given one, from a topic that has reached `level`."""
        found = await self._read(topic_id, "0", state, after, n)
        for deeper in range(1, level + 1):
            last = found[n - 1] if len(found) >= n else ""
            found = sorted(found + await self._walk(topic_id, deeper, state, after, last, n))[:n]
        return found

    async def _walk(self, topic_id: str, level: int, state: IndexState, after: str, last: str, n: int) -> list[str]:
        """Of one level, up to `last` ('': to the end)."""
        found: list[str] = []
        buckets = list(_buckets(level, after, last))
        for start in range(0, len(buckets), BUCKETS_AT_ONCE):
            some = buckets[start : start + BUCKETS_AT_ONCE]
            pages = await asyncio.gather(*[self._read(topic_id, bucket, state, after, n) for bucket in some])
            found += [subscription_id for page in pages for subscription_id in page]
            if len(found) >= n:
                break
        return found

    async def _read(self, topic_id: str, bucket: str, state: IndexState, after: str, n: int) -> list[str]:
        rows = await self._cassandra.run(schema.IDS_OF_TOPIC, topic_id, bucket, state, after, n)
        return [subscription_id for (subscription_id,) in rows]


def bucket_of(level: int, subscription_id: str) -> str:
    return f"{level}{subscription_id[:level]}"


def _bucket(subscription: Subscription, level: int) -> tuple[str, str]:
    return subscription.topic_id, bucket_of(level, subscription.id)


def _buckets(level: int, after: str, last: str) -> Iterator[str]:
    """Those of a level in which ids from `after` to `last` lie."""
    first_number = int(after[:level] or "0", 16)
    last_number = int(last[:level], 16) if last else FAN**level - 1
    for number in range(first_number, last_number + 1):
        yield f"{level}{number:0{level}x}"
