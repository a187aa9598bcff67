"""Keeps what Redis knows in step with the rows: brings what it lacks, ends deletes that a dead process began."""

from __future__ import annotations

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_failover import Caches
from cqs.engines.cluster.known_queues import Line, Lines
from cqs.engines.cluster.redis_cache import RedisCache
from cqs.engines.cluster.refill import Watch, reconcile
from cqs.engines.cluster.rows import Rows

QUEUES_AT_ONCE = 200

log = structlog.get_logger(__name__)


class Reconciler:
    """Of the queues that this process used lately."""

    def __init__(self, rows: Rows, caches: Caches, lines: Lines, clock: Clock) -> None:
        self._rows = rows
        self._caches = caches
        self._lines = lines
        self._clock = clock
        self.repairs = 0

    @property
    def lag_ms(self) -> int:
        """How long ago the queue was compared that waits longest: it bounds how late a message is that its sender could
        not tell Redis of."""
        return max((self._clock.wall_ms() - line.walked_ms for line in self._lines.lately()), default=0)

    async def step(self) -> None:
        redis = self._caches.redis
        if redis is None:
            return
        await redis.clear_deleted()
        for line in self._lines.lately()[:QUEUES_AT_ONCE]:
            begun_ms = self._clock.wall_ms()
            try:
                await self._compare(redis, line)
            except CnsError as error:  # the others have their turn all the same
                log.warning("redis.reconcile_failed", queue=line.q.id, error=str(error))
            else:
                line.walked_ms = begun_ms

    async def _compare(self, redis: RedisCache, line: Line) -> None:
        queue = line.q.id
        if line.watch.generation != line.generation:
            line.watch = Watch(line.generation)
        repairs = await reconcile(self._rows, redis, queue, line.watch, self._clock.now_ms())
        if repairs:
            log.info("redis.repaired", queue=queue, messages=repairs)
            self.repairs += repairs
        left = await redis.undeleted(queue)
        if left:
            await self._rows.delete(queue, left)
            redis.deleted(queue, left)
