"""Counts and peeks of standard queues: from the cache, or from the rows while the cache is not filled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cluster.cache_contract import Cache, CacheCounts, CachedMessage
from cqs.engines.cluster.deliveries import peeked_of
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.known_queues import ClusterKnownQueue, ClusterKnownQueues
from cqs.engines.cluster.no_redis.counts import FallbackCounts
from cqs.engines.cluster.oldest_message import OldestMessages
from cqs.engines.cluster.row_counts import RowCounts
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.contract import Counts, PeekPage

BY_ROWS_S = 1.5
"""The time that counts and a peek wait for the rows."""
LAST_MS_MAX = 300_000
"""The greatest age of the last counts that are returned if the rows are not read in time."""
LAST_MAX = 10_000
"""Shards whose last counts are kept."""

T = TypeVar("T", bound=Iterable[object])


class _ShardAnswer(NamedTuple, Generic[T]):
    value: T | None
    """None if the queue was dropped, or if nothing is known of it."""
    is_whole: bool
    """False during a fill: other messages may exist."""


class _LastCounts(NamedTuple):
    counts: CacheCounts
    generation: int
    read_ms: int


class QueueContents:
    def __init__(self, rows: MessageRows, caches: CacheRouter, known_queues: ClusterKnownQueues, clock: Clock) -> None:
        self._rows = rows
        self._caches = caches
        self._known_queues = known_queues
        self._clock = clock
        self._oldest = OldestMessages(rows)
        self._by_rows = RowCounts(FallbackCounts(rows, clock, {}))
        self._last: BoundedCache[QueueShard, _LastCounts] = BoundedCache(LAST_MAX)

    async def peek(self, queue: ClusterKnownQueue, cursor: str, n: int) -> PeekPage:
        """Raises StoreUnavailable if the cache has none of the messages, and the rows are not read in time."""
        due_text, _, member = cursor.partition(":")
        after = (int(due_text), member) if cursor else (-1, "")

        async def page(shard: QueueShard) -> list[CachedMessage]:
            answer = await self._ask(
                queue,
                shard,
                lambda cache, filled: cache.page(shard, after, n, require_filled=filled),
                lambda: self._by_rows.page(shard, after, n),
            )
            if not answer.value and not answer.is_whole:
                raise StoreUnavailable("the messages of this queue are not known yet: its cache is being filled")
            return answer.value or []

        pages = await asyncio.gather(*[page(shard) for shard in self._caches.shards(queue.q.id)])
        items = sorted(chain.from_iterable(pages), key=lambda item: (item.visible_at_ms, item.location.member))[:n]
        rows = await self._rows.read(queue.q.id, [item.location for item in items])
        peeked = [peeked_of(item, rows[item.location]) for item in items if item.location in rows]
        if len(items) < n:
            return PeekPage(tuple(peeked))
        return PeekPage(tuple(peeked), f"{items[-1].visible_at_ms}:{items[-1].location.member}")

    async def counts(self, queue: ClusterKnownQueue, now_ms: int, *, oldest: bool) -> Counts:
        """During a fill, the last counts of this process. Raises StoreUnavailable if there are none, the cache has no
        messages, and the rows are not read in time."""
        shards = self._caches.shards(queue.q.id)
        counted = await asyncio.gather(*[self._shard_counts(queue, shard, now_ms) for shard in shards])
        visible, in_flight, delayed = (sum(each) for each in zip(CacheCounts(0, 0, 0), *counted, strict=True))
        if not visible + in_flight + delayed:
            return Counts()
        born_at_ms = await self._oldest.born_at_ms(queue.q.id, queue.generation, now_ms) if oldest else 0
        return Counts(visible, in_flight, delayed, born_at_ms)

    async def _shard_counts(self, queue: ClusterKnownQueue, shard: QueueShard, now_ms: int) -> CacheCounts:
        answer = await self._ask(
            queue,
            shard,
            lambda cache, filled: cache.counts(shard, now_ms, require_filled=filled),
            lambda: self._by_rows.counts(shard, now_ms),
        )
        counts, read_ms = answer.value or CacheCounts(0, 0, 0), self._clock.monotonic_ms()
        if answer.is_whole:
            self._last.put(shard, _LastCounts(counts, queue.generation, read_ms))
            return counts
        last = self._last.get(shard)
        if last is not None and last.generation == queue.generation and read_ms - last.read_ms <= LAST_MS_MAX:
            return max(counts, last.counts, key=sum)
        if not any(counts):
            raise StoreUnavailable("the messages of this queue are not counted yet: its cache is being filled")
        return counts

    async def _ask(
        self,
        queue: ClusterKnownQueue,
        shard: QueueShard,
        question: Callable[[Cache, bool], Awaitable[T | None]],
        by_rows: Callable[[], Awaitable[T]],
    ) -> _ShardAnswer[T]:
        """Ask the filled cache. During a long fill, ask the cache for the messages that it has; if it has none yet, ask
        the rows, and use their answer if it is in time: the fill may not have begun."""
        for waits in (True, False):
            answer = await self._caches.ask(shard, lambda cache: question(cache, True))
            if answer is not None or queue.generation == DROPPED:
                return _ShardAnswer(answer, is_whole=True)
            if waits:
                await self._known_queues.wait_for_fill(queue, shard)
        answer = await self._caches.ask(shard, lambda cache: question(cache, False))
        if answer is not None and any(answer):
            return _ShardAnswer(answer, is_whole=False)
        try:
            async with asyncio.timeout(BY_ROWS_S):
                return _ShardAnswer(await by_rows(), is_whole=True)
        except TimeoutError:
            return _ShardAnswer(answer, is_whole=False)

    async def close(self) -> None:
        """Cancel reads that counts left running."""
        await self._by_rows.close()
