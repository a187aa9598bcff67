"""An owner's regular checks of its queues: expired messages, empty buckets, unfinished deletes."""

from __future__ import annotations

import asyncio

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.ids import QueueShard, generation_prefix, start_of
from cqs.engines.cluster.maintenance import drop_empty, expire
from cqs.engines.cluster.ownership.owned_queues import AT_ONCE, PAUSE_MS_MIN, OwnedQueue, OwnedQueues
from cqs.engines.cluster.ownership.processes import LiveProcesses
from cqs.engines.cluster.ownership.used_queues import NOBODY, UsedQueues, slice_key, slice_of
from cqs.engines.cluster.reconciler import finish_deletes
from cqs.engines.cluster.refill import listed_buckets_of
from cqs.engines.cluster.rows import ListedBucket, MessageRows
from cqs.engines.cluster.schema import BUCKET_SPAN_MS
from cqs.engines.cluster.servers.router import CacheRouter

LOOKS_MIN = 4
LOOKS_DIVISOR = 150
"""The most queues of one round, or this share of all, so that each is checked within five minutes."""

log = structlog.get_logger(__name__)


class OwnerChecks:
    def __init__(
        self,
        rows: MessageRows,
        caches: CacheRouter,
        used: UsedQueues,
        processes: LiveProcesses,
        owned: OwnedQueues,
        clock: Clock,
    ) -> None:
        self._rows = rows
        self._caches = caches
        self._used = used
        self._processes = processes
        self._owned = owned
        self._clock = clock

    async def step(self, budget: int, now_ms: int, *, paced: bool) -> int:
        """Check the queues that are due; `paced`: a few of them. Returns how many rows and buckets were removed."""
        due = self._owned.due(now_ms)
        done = 0
        for queue in due[: max(LOOKS_MIN, len(self._owned) // LOOKS_DIVISOR)] if paced else due:
            if done >= budget or not self._may_continue(queue):
                break
            try:
                done += await self._check(queue, budget - done, now_ms)
            except (CnsError, CacheUnavailable) as error:  # go on with the other queues
                queue.due_ms = now_ms + PAUSE_MS_MIN
                log.warning("queue.maintenance_failed", queue=queue.q.id, error=str(error))
        return done

    def _may_continue(self, queue: OwnedQueue) -> bool:
        return self._processes.owns(slice_key(slice_of(queue.q.id)))

    async def _check(self, queue: OwnedQueue, budget: int, now_ms: int) -> int:
        queue_id = queue.q.id
        queue.begin_check()
        generation, listed = await asyncio.gather(self._rows.generation(queue_id), self._listed(queue_id))
        if generation is None:
            await self._forget(queue)
            return 0
        queue.generation = generation
        buckets = [bucket for bucket in listed if bucket.name > generation_prefix(generation)]
        if not buckets and queue.users == {NOBODY}:
            await self._forget(queue)
            return 0
        done = 0
        if not queue.q.fifo and any(start_of(bucket.name) <= now_ms - queue.q.retention_ms for bucket in buckets):
            done += await expire(self._rows, self._caches, queue, budget, now_ms)
        if done < budget and self._may_continue(queue):
            done += await drop_empty(self._rows, queue, buckets, budget - done, now_ms)
        for shard in self._caches.shards(queue_id):
            redis = self._caches.at(shard).redis
            if redis is not None:
                await finish_deletes(self._rows, redis, shard)
        queue.plan(now_ms, buckets, AT_ONCE if done else _next_due_ms(queue, buckets, now_ms))
        return done

    async def _listed(self, queue_id: str) -> list[ListedBucket]:
        return [bucket async for bucket in listed_buckets_of(self._rows, QueueShard(queue_id), 0)]

    async def _forget(self, queue: OwnedQueue) -> None:
        """Forget a queue that was dropped, or that is empty and not used any more."""
        for node in queue.users:
            await self._used.remove(queue.q.id, node)
        self._owned.forget(queue.q.id)


def _next_due_ms(queue: OwnedQueue, buckets: list[ListedBucket], now_ms: int) -> int | None:
    """The earliest time at which something of the queue falls due: messages expire, or a bucket can be sealed."""
    due_ms: list[int] = []
    if buckets and not queue.q.fifo:
        expires_ms = start_of(buckets[0].name) + queue.q.retention_ms  # the first message that may have been in it
        due_ms.append(expires_ms if expires_ms > now_ms else now_ms + PAUSE_MS_MIN)
    ends = [start_of(bucket.name) + BUCKET_SPAN_MS + 1 for bucket in buckets if not bucket.sealed]
    due_ms += [at_ms for at_ms in ends if at_ms > now_ms]
    return min(due_ms, default=None)
