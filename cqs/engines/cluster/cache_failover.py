"""Passes calls to the cache in use: Redis while the processes use it (`views`), else each one's own memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from cns_common.clock import Clock
from cns_common.cluster.view import View
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import (
    Cache,
    CachedMessage,
    CacheUnavailable,
    LeaseResult,
    MessageLease,
    delivered_later,
)
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, QueueShard
from cqs.engines.cluster.no_redis.cache import FallbackCache
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.rows import MessageRow, MessageRows
from cqs.engines.cluster.unacked import UnackedDeliveries

SWITCH_WAIT_S = 1.0
"""The time that a receive waits for a change of caches before it returns nothing."""
QUEUES_AT_ONCE = 16

T = TypeVar("T")
log = structlog.get_logger(__name__)


class CacheFailover:
    """A circuit breaker: after a failure only `CacheSwitch` calls Redis, until it opens a cache again.

    Messages are leased only while a cache is open and this process is certain of its epoch, before and after the lease.
    Other calls do not depend on the epoch: the rows in Cassandra decide about them.
    """

    def __init__(
        self,
        redis: RedisCache | None,
        fallback: FallbackCache,
        unacked: UnackedDeliveries,
        rows: MessageRows,
        clock: Clock,
        view: View,
    ) -> None:
        """`view` is used only with a Redis."""
        self._redis = redis
        self._fallback = fallback
        self._unacked = unacked
        self._possibly_repeated = UnackedDeliveries()
        self._rows = rows
        self._clock = clock
        self._view = view
        self._repeated = 0
        self._open = asyncio.Event()
        self.lost = asyncio.Event()
        """Set when Redis failed."""
        self.losses = 0
        self.lookups: Counter[str] = Counter(hit=0, filling=0, miss=0)
        """Leases, by how much of the queue Redis knew."""
        self.on_fallback = True

    async def ask(self, question: Callable[[Cache], Awaitable[T]]) -> T:
        if self._redis is not None and not self.on_fallback:
            epoch = self._redis.epoch
            try:
                answer = await question(self._redis)
            except CacheUnavailable as error:
                self.mark_lost(str(error))
            else:
                if not self.on_fallback and epoch == self._redis.epoch:
                    return answer
        return await question(self._fallback)

    async def certain_epoch(self) -> int | None:
        """The epoch in which messages can be leased, and of which this process is certain. None if a change of epochs
        takes longer than `SWITCH_WAIT_S`. Raises StoreUnavailable if Cassandra does not confirm the epoch."""
        if self._redis is None:
            return 0
        if not self._open.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._open.wait(), SWITCH_WAIT_S)
        if self._open.is_set():
            await self._view.ensure_certain()
        epoch = self._view.epoch
        return epoch if self.is_certain_of(epoch) else None

    def is_certain_of(self, epoch: int) -> bool:
        """Whether this process is still certain of the epoch."""
        if self._redis is None:
            return True
        return self._open.is_set() and self._view.is_certain and self._view.epoch == epoch

    def count_lookup(self, taken: LeaseResult | None) -> None:
        known = "filling" if taken is None or taken.filling else "hit"
        self.lookups["miss" if self.on_fallback else known] += 1

    @property
    def knows_generations(self) -> bool:
        """Whether the cache's generation of a queue is valid for all processes."""
        return not self.on_fallback and self._view.is_certain

    @property
    def redis(self) -> RedisCache | None:
        """None while it is unavailable."""
        return None if self.on_fallback else self._redis

    @property
    def has_redis(self) -> bool:
        """Whether a Redis is configured, available or not."""
        return self._redis is not None

    @property
    def redis_is_lost(self) -> bool:
        return self._redis is not None and self.on_fallback

    def hint(self, queue_id: str) -> None:
        """Tell other processes that a FIFO queue, which the cache does not know, has changed."""
        if self._redis is not None and not self.on_fallback:
            self._redis.notifications.hint(queue_id)

    async def undo_lease(self, shard: QueueShard, leases: Sequence[MessageLease], now_ms: int) -> None:
        """Take back leases whose messages no receiver was given."""
        self._unacked.forget(shard, [lease.key.location for lease in leases])
        await self.ask(lambda cache: cache.undo_lease(shard, leases, now_ms))

    async def finish_delete(
        self, shard: QueueShard, locations: Sequence[MessageLocation], *, redis_knows: bool
    ) -> None:
        """Report that the rows are deleted. Redis may still have the messages if it was unavailable at
        `begin_delete`."""
        if self.on_fallback:
            self._fallback.finish_delete(shard, locations)
        elif self._redis is not None and redis_knows:
            self._redis.finish_delete(shard, locations)
        else:
            await self.ask(lambda cache: cache.forget(shard, locations))

    # -- for the switch -----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether messages can be leased."""
        return self._open.is_set()

    async def wait_until_open(self) -> None:
        await self._open.wait()

    def mark_lost(self, why: str) -> None:
        """Stop using Redis; the switch finds out what happened."""
        if not self.on_fallback:
            log.warning("redis.lost", name=self._view.name, error=why)
            self.losses += 1
            self.on_fallback = True
            self._open.clear()
            self.lost.set()

    def open(self, *, redis: bool) -> None:
        """Lease messages from Redis, or from this process's memory."""
        self.on_fallback = not redis
        self._open.set()
        if redis and self.losses:
            log.info("redis.recovered", name=self._view.name)

    def shut(self) -> None:
        """Lease no messages: the epoch is over."""
        self.mark_lost("the processes use another cache now")
        self._open.clear()

    async def replay_changes(self, redis: RedisCache) -> None:
        """Report to Redis what was sent and deleted while it was not in use."""
        sent, deleted = self._fallback.take_unreported()
        for shard, items in sent.items():
            await redis.add_missing(shard, items, self._clock.now_ms())
        for shard, locations in deleted.items():
            await redis.forget(shard, locations)

    # -- what this process hides --------------------------------------------------------------------------------------

    def held(self) -> list[QueueShard]:
        """The shards with messages that this process hides."""
        return [*{*self._unacked.shards(), *self._fallback.hidden()}]

    async def leave(self, shard: QueueShard) -> bool:
        """Stop hiding messages of the shard: save their visibility in the rows. Returns whether that worked."""
        for item in await self._fallback.release(shard):
            self._unacked.add(shard, item)
        return await self.save_hidden(shard)

    def mark_possibly_repeated(self, shard: QueueShard) -> None:
        """As `mark_all_possibly_repeated`, for one shard."""
        for item in (*self._fallback.hidden().get(shard, ()), *self._still_hidden(shard)):
            self._possibly_repeated.add(shard, item)

    def mark_all_possibly_repeated(self) -> None:
        """Mark what this process hides: others may have delivered it, since its visibility was not saved in time."""
        for shard in self.held():
            self.mark_possibly_repeated(shard)

    async def save_all_hidden(self) -> bool:
        """Save the visibility of all deliveries of this process in the rows. Returns whether that worked."""
        for shard, items in (await self._fallback.close()).items():
            for item in items:
                self._unacked.add(shard, item)
        shards = self._unacked.shards()
        saved = True
        for at in range(0, len(shards), QUEUES_AT_ONCE):
            some = await asyncio.gather(*[self.save_hidden(shard) for shard in shards[at : at + QUEUES_AT_ONCE]])
            saved = saved and all(some)
        return saved

    def _still_hidden(self, shard: QueueShard) -> list[CachedMessage]:
        return self._unacked.still_hidden(shard, self._clock.now_ms())

    async def save_hidden(self, shard: QueueShard) -> bool:
        """Save the visibility of this process's deliveries from the queue in their rows: Redis may have lost it."""
        unacked = self._still_hidden(shard)
        try:
            await self._rows.keep_hidden(shard.queue_id, unacked)
        except CnsError as error:
            log.warning(
                "redis_outage.visibility_save_failed", queue=shard.queue_id, messages=len(unacked), error=str(error)
            )
            return False
        self._unacked.forget(shard, [item.location for item in unacked])
        return True

    def count_if_repeated(self, shard: QueueShard, key: DeliveryKey, row: MessageRow | None) -> None:
        """Count a settlement that the cache could not judge, if its delivery was repeated: here, or where the other
        delivery is settled, but not in both places."""
        repeated = self._possibly_repeated.remove(shard, key.location)
        if row is None:
            self._repeated += repeated
        elif row.taken:
            self._repeated += delivered_later(row.taken, key.epoch)

    @property
    def duplicates(self) -> int:
        """Deliveries whose visibility was lost and whose messages were delivered again before they were settled."""
        return self._repeated + self._fallback.duplicates + (self._redis.duplicates if self._redis else 0)

    async def close(self) -> None:
        """Save the visibility of what this process hides."""
        self._open.clear()
        if self.on_fallback:
            await self._fallback.close()
        if self._redis is not None:
            await self._view.leave()
