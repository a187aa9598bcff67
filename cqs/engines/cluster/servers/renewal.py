"""Renews what Redis keeps of the queues that this process uses; the content of others expires."""

from __future__ import annotations

import asyncio
import contextlib

from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cassandra.known_queues import KNOWN_MAX
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.known_queues import ClusterKnownQueues
from cqs.engines.cluster.servers.router import CacheRouter

CONTENT_INTERVAL_S = 60.0
CLEAN_MS = 3_600_000
FINISH_S_MAX = 5.0


class ContentRenewal:
    def __init__(self, caches: CacheRouter, known_queues: ClusterKnownQueues, clock: Clock) -> None:
        self._caches = caches
        self._known_queues = known_queues
        self._clock = clock
        self._renewed_ms: BoundedCache[str, int] = BoundedCache(KNOWN_MAX)
        self._cleaned_ms = clock.monotonic_ms()

    async def step(self) -> None:
        """Renew the queues that were used since the last step: then keys that were made meanwhile expire, too."""
        for queue in self._known_queues:
            used_ms = queue.used_ms
            if queue.q.fifo or queue.generation == DROPPED or used_ms <= (self._renewed_ms.get(queue.q.id) or 0):
                continue
            if all([await self._renew(shard) for shard in self._caches.shards(queue.q.id)]):
                self._renewed_ms.put(queue.q.id, used_ms)
        if self._clock.monotonic_ms() - self._cleaned_ms >= CLEAN_MS:
            self._cleaned_ms = self._clock.monotonic_ms()
            for failover in self._caches.failovers():
                if failover.redis is not None:
                    with contextlib.suppress(CacheUnavailable):
                        await failover.redis.forget_expired()

    async def _renew(self, shard: QueueShard) -> bool:
        """Renew the content on one server. Returns whether the server did; one that does not answer does not keep the
        others from renewing."""
        redis = self._caches.at(shard).redis
        if redis is not None:
            with contextlib.suppress(CacheUnavailable):
                await redis.renew(shard)
                return True
        return False

    async def finish(self) -> None:
        """The last step of a process that leaves its site: give all that it made an expiry. What cannot be renewed in
        time stays."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S_MAX):
                await self.step()
