"""Counts and peeks from the rows, for queues whose cache has nothing yet: many at once after a loss of Redis.

The time of a scan grows with the messages of the shard, so callers share one, and only few run at one time.
"""

from __future__ import annotations

import asyncio

from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import CacheCounts, CachedMessage
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.no_redis.counts import FallbackCounts

SCANS_AT_ONCE = 4
"""The limit of scans in one process. Further callers wait, and a caller that leaves meanwhile starts no scan."""


class RowCounts:
    def __init__(self, counts: FallbackCounts) -> None:
        self._counts = counts
        self._scan_slots = asyncio.Semaphore(SCANS_AT_ONCE)
        self._running: dict[QueueShard, asyncio.Task[CacheCounts]] = {}

    async def counts(self, shard: QueueShard, now_ms: int) -> CacheCounts:
        """Begin a scan of the shard, or share the one that runs. It continues when its callers have left: the next
        call finds what it read. Raises StoreUnavailable."""
        if shard not in self._running:
            await self._scan_slots.acquire()
            if shard in self._running:
                self._scan_slots.release()
            else:
                self._begin(shard, now_ms)
        return await asyncio.shield(self._running[shard])

    def _begin(self, shard: QueueShard, now_ms: int) -> None:
        def end(task: asyncio.Task[CacheCounts]) -> None:
            del self._running[shard]
            self._scan_slots.release()
            if not task.cancelled():
                task.exception()  # retrieved: its callers may have left

        scan = self._running[shard] = asyncio.create_task(self._counts.counts(shard, now_ms))
        scan.add_done_callback(end)

    async def page(self, shard: QueueShard, after: tuple[int, str], n: int) -> list[CachedMessage]:
        """As `FallbackCounts.page`. It ends with its caller."""
        return await self._counts.page(shard, after, n)

    async def close(self) -> None:
        await cancel_and_wait(self._running.values())
