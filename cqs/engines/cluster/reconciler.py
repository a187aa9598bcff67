"""Adds messages to Redis that it lacks: those whose sender died, or could not add them, after it wrote their rows.

Without errors nothing is compared. After an error the sender itself compares what it wrote; what a dead process wrote
last is compared by the owners of its queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.ids import QueueShard, start_of, writer_of
from cqs.engines.cluster.known_queues import ClusterKnownQueues
from cqs.engines.cluster.ownership.processes import LiveProcesses
from cqs.engines.cluster.ownership.used_queues import NOBODY, QueueUse, UsedQueues
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.refill import RECONCILE_AGE_MS, add_missing_since, add_missing_tail, buckets_of
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.schema import BUCKET_SPAN_MS
from cqs.engines.cluster.servers.router import CacheRouter

COMPARED_AFTER_MS = (5_000, 15_000, 45_000)
"""Times after an error at which the sender compares. By the last one none of its writes is under way any more."""
QUEUES_AT_ONCE = 8

log = structlog.get_logger(__name__)


async def finish_deletes(rows: MessageRows, redis: RedisCache, shard: QueueShard) -> None:
    """Delete the rows of messages that left Redis for a delete that was not finished."""
    left = await redis.unfinished_deletes(shard)
    if left:
        await rows.delete(shard.queue_id, left)
        redis.finish_delete(shard, left)


class _Comparison:
    __slots__ = ("begun_ms", "compared", "since_ms")

    def __init__(self, since_ms: int, begun_ms: int) -> None:
        self.since_ms = since_ms  # message time
        self.begun_ms = begun_ms  # monotonic
        self.compared = 0

    @property
    def due_ms(self) -> int:
        return self.begun_ms + COMPARED_AFTER_MS[self.compared]


class _Undone(NamedTuple):
    queue_id: str
    node: str


class _InUse(NamedTuple):
    """The last known state of a Redis server that is in use."""

    losses: int
    at_ms: int


class Reconciler:
    def __init__(
        self,
        rows: MessageRows,
        caches: CacheRouter,
        known_queues: ClusterKnownQueues,
        processes: LiveProcesses,
        used: UsedQueues,
        clock: Clock,
    ) -> None:
        self._rows = rows
        self._caches = caches
        self._known_queues = known_queues
        self._processes = processes
        self._used = used
        self._clock = clock
        self._comparisons: dict[str, _Comparison] = {}
        self._undone: dict[_Undone, tuple[QueueUse, int]] = {}  # with the time when its process was found dead
        self._in_use: dict[CacheFailover, _InUse] = {}
        self._begun_ms = clock.now_ms()
        self.repairs = 0

    @property
    def lag_ms(self) -> int:
        """The time for which the most overdue comparison has been waiting."""
        now_ms = self._clock.monotonic_ms()
        since_ms = [begun_ms for _, begun_ms in self._undone.values()]
        return max([now_ms - at_ms for at_ms in (*since_ms, *[one.due_ms for one in self._comparisons.values()])] + [0])

    def schedule_comparison(self, queue_id: str, since_ms: int) -> None:
        """Compare the queue soon: rows that this process wrote since then may be missing in Redis."""
        before = self._comparisons.get(queue_id)
        comparison = self._comparisons[queue_id] = _Comparison(since_ms, self._clock.monotonic_ms())
        if before is not None:
            comparison.since_ms = min(before.since_ms, since_ms)

    def add_undone(self, uses: Sequence[QueueUse]) -> None:
        """Add uses of queues by processes that died."""
        for use in uses:
            self._undone.setdefault(_Undone(use.q.id, use.node), (use, self._clock.monotonic_ms()))

    async def close(self) -> bool:
        """Report finished deletes. Returns whether nothing is left undone."""
        for failover in self._caches.failovers():
            if failover.has_redis and failover.redis is None:
                return False
        try:
            await self._report_deletes()
        except CacheUnavailable:
            return False
        return not self._comparisons

    async def step(self) -> None:
        await self._report_deletes()
        self._compare_after_losses()
        await self._compare_scheduled()
        undone = list(self._undone.items())
        for at in range(0, len(undone), QUEUES_AT_ONCE):
            await asyncio.gather(*[self._finish(key, use) for key, (use, _) in undone[at : at + QUEUES_AT_ONCE]])

    async def _report_deletes(self) -> None:
        for failover in self._caches.failovers():
            if failover.redis is not None:
                await failover.redis.flush_finished_deletes()

    def _compare_after_losses(self) -> None:
        """After a Redis was lost, compare all that was sent meanwhile."""
        now_ms = self._clock.now_ms()
        before, self._in_use = self._in_use, {}
        for failover in self._caches.failovers():
            in_use = before.get(failover) or _InUse(0, self._begun_ms)
            self._in_use[failover] = in_use
            if failover.redis is None:
                continue
            if failover.losses != in_use.losses:
                since_ms = in_use.at_ms - RECONCILE_AGE_MS
                for queue in self._known_queues:
                    if queue.sent_ms >= since_ms:
                        self.schedule_comparison(queue.q.id, since_ms)
            self._in_use[failover] = _InUse(failover.losses, now_ms)

    def _redises(self, queue_id: str) -> list[tuple[QueueShard, RedisCache]] | None:
        """The queue's caches in Redis; None if one of them is lost: comparisons wait for its return."""
        found: list[tuple[QueueShard, RedisCache]] = []
        for shard in self._caches.shards(queue_id):
            failover = self._caches.at(shard)
            if failover.redis is not None:
                found.append((shard, failover.redis))
            elif failover.has_redis:
                return None
        return found

    # -- what this process wrote --------------------------------------------------------------------------------------

    async def _compare_scheduled(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for queue_id, comparison in list(self._comparisons.items()):
            redises = self._redises(queue_id)
            if comparison.due_ms > now_ms or redises is None:
                continue
            try:
                await self._compare_own(redises, queue_id, comparison.since_ms)
            except CnsError as error:  # go on with the other queues
                log.warning("redis.reconcile_failed", queue=queue_id, error=str(error))
                continue
            comparison.compared += 1
            if comparison.compared == len(COMPARED_AFTER_MS) and self._comparisons.get(queue_id) is comparison:
                del self._comparisons[queue_id]

    async def _compare_own(self, redises: list[tuple[QueueShard, RedisCache]], queue_id: str, since_ms: int) -> None:
        buckets = await self._buckets_of(queue_id, self._rows.node)
        since_bucket_ms = since_ms - BUCKET_SPAN_MS - RECONCILE_AGE_MS
        for shard, redis in redises:
            for bucket in buckets:
                if shard.has(bucket) and start_of(bucket) >= since_bucket_ms:
                    added = await add_missing_since(self._rows, redis, shard, bucket, since_ms, self._clock.now_ms())
                    self._count(queue_id, added)
            await finish_deletes(self._rows, redis, shard)

    # -- what dead processes left -------------------------------------------------------------------------------------

    async def _finish(self, key: _Undone, use: QueueUse) -> None:
        """Do what a dead process left undone in a queue, and remove it from the queue's users."""
        redises = self._redises(use.q.id)
        if redises is None:
            return
        try:
            if redises and not use.q.fifo and use.node not in self._processes.departed:
                await self._compare_last(redises, use)
            if await self._has_buckets(use.q.id):
                await self._used.add(use.q, NOBODY)
            await self._used.remove(use.q.id, use.node)
        except (CnsError, CacheUnavailable) as error:  # the next step tries again
            log.warning("redis.reconcile_failed", queue=use.q.id, error=str(error))
        else:
            self._undone.pop(key, None)

    async def _compare_last(self, redises: list[tuple[QueueShard, RedisCache]], use: QueueUse) -> None:
        queue_id, (node, _, _) = use.q.id, use.node.partition(".")
        buckets = await self._buckets_of(queue_id, node)
        for shard, redis in redises:
            some = [bucket for bucket in buckets if shard.has(bucket)]
            self._count(queue_id, await add_missing_tail(self._rows, redis, shard, some, self._clock.now_ms()))
            await finish_deletes(self._rows, redis, shard)

    async def _has_buckets(self, queue_id: str) -> bool:
        return bool(await self._rows.buckets(queue_id, ""))

    async def _buckets_of(self, queue_id: str, node: str) -> list[str]:
        generation = await self._rows.generation(queue_id)
        if generation is None:
            return []
        return [
            bucket
            async for bucket in buckets_of(self._rows, QueueShard(queue_id), generation)
            if writer_of(bucket) == node
        ]

    def _count(self, queue_id: str, added: int) -> None:
        if added:
            log.info("redis.repaired", queue=queue_id, messages=added)
            self.repairs += added
