"""Keeps Redis consistent with the rows: adds missing messages, and finishes deletes of processes that died."""

from __future__ import annotations

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.known_queues import KnownQueue, KnownQueues
from cqs.engines.cluster.redis_cache import RedisCache
from cqs.engines.cluster.refill import ReconcileProgress, reconcile
from cqs.engines.cluster.rows import MessageRows

QUEUES_AT_ONCE = 200

log = structlog.get_logger(__name__)


class Reconciler:
    """Reconciles the queues that this process used recently."""

    def __init__(self, rows: MessageRows, failover: CacheFailover, known_queues: KnownQueues, clock: Clock) -> None:
        self._rows = rows
        self._failover = failover
        self._known_queues = known_queues
        self._clock = clock
        self.repairs = 0

    @property
    def lag_ms(self) -> int:
        """The longest time since a queue was compared: the maximum delay of a message that its sender could not add to
        Redis."""
        return max(
            (self._clock.wall_ms() - queue.reconciled_ms for queue in self._known_queues.recently_used()),
            default=0,
        )

    async def step(self) -> None:
        redis = self._failover.redis
        if redis is None:
            return
        await redis.flush_finished_deletes()
        for queue in self._known_queues.recently_used()[:QUEUES_AT_ONCE]:
            begun_ms = self._clock.wall_ms()
            try:
                await self._compare(redis, queue)
            except CnsError as error:  # go on with the other queues
                log.warning("redis.reconcile_failed", queue=queue.q.id, error=str(error))
            else:
                queue.reconciled_ms = begun_ms

    async def _compare(self, redis: RedisCache, queue: KnownQueue) -> None:
        queue_id = queue.q.id
        if queue.progress.generation != queue.generation:
            queue.progress = ReconcileProgress(queue.generation)
        repairs = await reconcile(self._rows, redis, queue_id, queue.progress, self._clock.now_ms())
        if repairs:
            log.info("redis.repaired", queue=queue_id, messages=repairs)
            self.repairs += repairs
        left = await redis.unfinished_deletes(queue_id)
        if left:
            await self._rows.delete(queue_id, left)
            redis.finish_delete(queue_id, left)
