"""Finds the cache of each shard of a queue: the failover of the Redis server on which the layout places it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from cns_common.cluster.view import View
from cqs.engines.cluster.cache_contract import Cache, CachedMessage, MessageLease
from cqs.engines.cluster.cache_failover import SWITCH_WAIT_S, CacheFailover
from cqs.engines.cluster.ids import MessageLocation, QueueShard, number_of
from cqs.engines.cluster.no_redis.cache import FallbackCache
from cqs.engines.cluster.servers.layout import Layout, LayoutText
from cqs.engines.cluster.servers.shard_counts import ShardCounts

RESET_PAUSE_S = 0.1
"""The pause before a reset is repeated, since another epoch has begun meanwhile."""

T = TypeVar("T")


class CacheInUse(NamedTuple):
    """The cache of a shard by the decisions that all processes share."""

    shard: QueueShard
    failover: CacheFailover
    layout: int
    """The epoch of the layout."""
    epoch: int
    """The epoch of the server."""


class CacheRouter:
    """While a layout begins, shards that move are at no server: their cache is `detached`, which knows nothing and
    leases nothing."""

    def __init__(self, detached: CacheFailover, buffered: FallbackCache, view: View | None) -> None:
        """`buffered` collects the changes of detached shards. `view` is that of the layout; None if no
        process uses Redis."""
        self._detached = detached
        self._buffered = buffered
        self._view = view
        self._failovers: dict[str, CacheFailover] = {}
        self._layout = Layout(0, LayoutText())
        self._next: Layout | None = self._layout
        self._settled = asyncio.Event()
        self.shard_counts = ShardCounts(lambda: self._layout)

    # -- for the switch -----------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def is_settled(self) -> bool:
        return self._next is None

    def begin(self, layout: Layout) -> None:
        """Detach the shards that the layout moves."""
        self._next = layout
        self._settled.clear()

    def settle(self) -> None:
        """Use the layout that was begun last."""
        self._layout, self._next = self._next or self._layout, None
        self._settled.set()

    async def replay_changes(self, now_ms: int) -> None:
        """Report what was sent and deleted while shards were at no server, as far as their Redis is in use now."""
        sent, deleted = self._buffered.take_unreported()
        for moved, items in sent.items():
            for shard, locations in self.by_shard(moved.queue_id, [item.location for item in items]):
                redis, some = self.at(shard).redis, set(locations)
                if redis is not None:
                    await redis.add_missing(shard, [item for item in items if item.location in some], now_ms)
        for moved, gone in deleted.items():
            for shard, locations in self.by_shard(moved.queue_id, gone):
                redis = self.at(shard).redis
                if redis is not None:
                    await redis.forget(shard, locations)

    async def wait_until_settled(self) -> None:
        await self._settled.wait()

    def add(self, name: str, failover: CacheFailover) -> None:
        self._failovers[name] = failover

    def remove(self, name: str) -> None:
        self._failovers.pop(name, None)

    # -- placement ----------------------------------------------------------------------------------------------------

    def shards(self, queue_id: str) -> tuple[QueueShard, ...]:
        return self._layout.shards(queue_id)

    def shard_of(self, queue_id: str, location: MessageLocation) -> QueueShard:
        count = self._layout.shard_count(queue_id)
        return QueueShard(queue_id, number_of(location.bucket) % count if count > 1 else 0, count)

    def by_shard(
        self, queue_id: str, locations: Iterable[MessageLocation]
    ) -> list[tuple[QueueShard, list[MessageLocation]]]:
        """The locations of each shard, in their order."""
        found: defaultdict[QueueShard, list[MessageLocation]] = defaultdict(list)
        for location in locations:
            found[self.shard_of(queue_id, location)].append(location)
        return list(found.items())

    def at(self, shard: QueueShard) -> CacheFailover:
        placement = self._layout.place(shard)
        if placement is None or (self._next is not None and self._next.place(shard) != placement):
            return self._detached
        return self._failovers.get(placement.server, self._detached)

    def placed_since(self, shard: QueueShard) -> int:
        placement = self._layout.place(shard)
        return 0 if placement is None else placement.since

    def failovers(self) -> list[CacheFailover]:
        return list(self._failovers.values())

    # -- calls --------------------------------------------------------------------------------------------------------

    async def ask(self, shard: QueueShard, question: Callable[[Cache], Awaitable[T]]) -> T:
        """The answer of the shard's cache. If the shard moves meanwhile, the next cache is asked."""
        while True:
            failover = self.at(shard)
            answer = await failover.ask(question)
            if self.at(shard) is failover:
                return answer

    async def in_use(self, shard: QueueShard) -> CacheInUse | None:
        """The cache that all processes use for the shard. None if a change takes longer than `SWITCH_WAIT_S`. Raises
        StoreUnavailable if Cassandra does not confirm the epochs of the layout and of the server."""
        if self._view is not None:
            if self._is_moving(shard):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), SWITCH_WAIT_S)
            await self._view.ensure_certain()
            if self._is_moving(shard) or not self._view.is_certain:
                return None
        failover, layout = self.at(shard), self._epoch
        epoch = await failover.certain_epoch()
        return None if epoch is None else CacheInUse(shard, failover, layout, epoch)

    def is_in_use(self, used: CacheInUse) -> bool:
        """Whether this process is certain that it still is."""
        if self._view is not None and (not self._view.is_certain or self._epoch != used.layout):
            return False
        return self.at(used.shard) is used.failover and used.failover.is_certain_of(used.epoch)

    @property
    def _epoch(self) -> int:
        return 0 if self._view is None else self._view.epoch

    def _is_moving(self, shard: QueueShard) -> bool:
        return not self.is_settled and self.at(shard) is self._detached

    async def undo_lease(self, queue_id: str, leases: Sequence[MessageLease], now_ms: int) -> None:
        """Take back leases whose messages no receiver was given."""
        for shard, locations in self.by_shard(queue_id, [lease.key.location for lease in leases]):
            of_shard = [lease for lease in leases if lease.key.location in locations]
            await self.at(shard).undo_lease(shard, of_shard, now_ms)

    async def forget(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        for shard, some in self.by_shard(queue_id, locations):
            await self._forget(shard, some)

    async def _forget(self, shard: QueueShard, locations: list[MessageLocation]) -> None:
        await self.ask(shard, lambda cache: cache.forget(shard, locations))

    async def postpone(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        for shard, some in self.by_shard(queue_id, [item.location for item in items]):
            await self._postpone(shard, [item for item in items if item.location in some])

    async def _postpone(self, shard: QueueShard, items: list[CachedMessage]) -> None:
        await self.ask(shard, lambda cache: cache.postpone(shard, items))

    async def reset(self, queue_id: str, generation: int) -> None:
        """As `Cache.reset`, for all shards. On return, every process that caches one was told, or uses its cache in a
        later epoch, which is filled from Cassandra."""
        for shard in self.shards(queue_id):
            await self._reset(shard, generation)

    async def _reset(self, shard: QueueShard, generation: int) -> None:
        while True:
            used = await self.in_use(shard)
            if used is not None:
                await used.failover.ask(lambda cache: cache.reset(shard, generation))
                if self.is_in_use(used):
                    return
            await asyncio.sleep(RESET_PAUSE_S)

    def know_generations(self, shard: QueueShard) -> bool:
        """Whether the shard's cache knows the generation that is valid for all processes."""
        return self._view is not None and self._view.is_certain and self.at(shard).knows_generations

    def hint(self, queue_id: str) -> None:
        """Tell other processes that a FIFO queue, which no cache knows, has changed. They listen to every server."""
        for failover in self._failovers.values():
            if failover.redis is not None:
                failover.hint(queue_id)
                return

    @property
    def has_hints(self) -> bool:
        return any(failover.redis is not None for failover in self._failovers.values())
