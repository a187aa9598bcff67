"""Finds the oldest message of a queue. A process passes over each deleted row once, not at each call.

Cassandra keeps deleted rows as tombstones for a while, so a search from a bucket's start takes longer with every
delete. A process caches up to where each bucket has no messages."""

from __future__ import annotations

from cns_common.bounded_cache import BoundedCache
from cqs.engines.cluster.ids import COUNTER_BITS, QueueShard, start_of
from cqs.engines.cluster.refill import RECONCILE_AGE_MS, buckets_of
from cqs.engines.cluster.rows import MessageRows

QUEUES_MAX = 1_000


class OldestMessages:
    def __init__(self, rows: MessageRows) -> None:
        self._rows = rows
        self._cleared: BoundedCache[str, dict[str, int]] = BoundedCache(QUEUES_MAX)
        """By queue and bucket: the number up to which the bucket has no messages any more."""

    async def born_at_ms(self, queue_id: str, generation: int, now_ms: int) -> int:
        """The send time of the oldest message; 0 for an empty queue."""
        before = self._cleared.get(queue_id) or {}
        cleared: dict[str, int] = {}
        born_at_ms = 0
        async for bucket in buckets_of(self._rows, QueueShard(queue_id), generation):
            if born_at_ms:  # later than the oldest message: keep what is known
                cleared |= {bucket: before[bucket]} if bucket in before else {}
                continue
            settled = (now_ms - RECONCILE_AGE_MS - start_of(bucket)) << COUNTER_BITS
            first = await self._rows.first(queue_id, bucket, before.get(bucket, -1))
            up_to = settled if first is None else min(first.location.seq - 1, settled)
            cleared[bucket] = max(before.get(bucket, -1), up_to)
            born_at_ms = 0 if first is None else first.born_at_ms
        self._cleared.put(queue_id, cleared)
        return born_at_ms
