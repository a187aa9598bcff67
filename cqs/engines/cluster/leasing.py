"""Leases messages for receivers: from the shards of a queue in turn, by the decisions that all processes share."""

from __future__ import annotations

from cqs.engines.cluster.cache_contract import LeaseRequest, LeaseResult, merged
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.known_queues import ClusterKnownQueue, ClusterKnownQueues
from cqs.engines.cluster.servers.router import CacheRouter

TRIES = 2
"""Caches asked in turn: the first may no longer be in use when it answers."""
FILLS_MAX = 2
"""Fills of the cache that one lease waits for: Redis may be lost during one."""


class MessageLeasing:
    def __init__(self, caches: CacheRouter, known_queues: ClusterKnownQueues) -> None:
        self._caches = caches
        self._known_queues = known_queues

    async def take(self, queue: ClusterKnownQueue, request: LeaseRequest) -> LeaseResult:
        """Lease from the shards in turn, until there are enough messages. Raises StoreUnavailable if Cassandra does not
        confirm the epochs by which this process acts."""
        shards = self._caches.shards(queue.q.id)
        if len(shards) == 1:
            return await self._take_from(queue, shards[0], request)
        queue.turn += 1
        first = queue.turn % len(shards)
        taken: list[LeaseResult] = []
        found = 0
        for shard in (*shards[first:], *shards[:first]):
            taken.append(await self._take_from(queue, shard, request._replace(want=request.want - found)))
            found += len(taken[-1].leases)
            if found >= request.want:
                break
        return merged(taken)

    async def _take_from(self, queue: ClusterKnownQueue, shard: QueueShard, request: LeaseRequest) -> LeaseResult:
        """During a fill of the shard's cache, take the messages that are in it already."""
        taken = await self._ask(shard, request)
        for _ in range(FILLS_MAX):
            if taken is not None and (taken.leases or not taken.filling):
                break
            request = request._replace(require_filled=False)
            begun = await self._known_queues.wait_for_messages(queue, shard)
            taken = await self._ask(shard, request)
            if begun and (taken is None or (taken.filling and not taken.leases)):
                await self._known_queues.wait_for_fill(queue, shard)
                taken = await self._ask(shard, request)
            if taken is not None:
                break
        return taken or LeaseResult()

    async def _ask(self, shard: QueueShard, request: LeaseRequest) -> LeaseResult | None:
        """Take what the cache gives, if this process is certain afterwards that all processes use it; else others may
        lease the same messages meanwhile, elsewhere."""
        for _ in range(TRIES):
            used = await self._caches.in_use(shard)
            if used is None:
                break
            taken = await used.failover.ask(lambda cache: cache.lease(shard, request))
            if self._caches.is_in_use(used):
                used.failover.count_lookup(taken)
                return taken
            if taken is not None and taken.leases:
                await used.failover.undo_lease(shard, taken.leases, request.now_ms)
        return LeaseResult()
