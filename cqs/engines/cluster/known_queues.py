"""The queues that this process uses: their generations, and the running fills of their cache."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator

import structlog

from cns_common.clock import Clock
from cqs.engines.cluster.cache_contract import DROPPED, Cache
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.refill import ReconcileProgress, fill_cache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.contract import QueueRef

KNOWN_MAX = 20_000
GENERATION_AGE_MS_MAX = 5_000
"""How old a known generation may be. The cache reports a purge at once; without it, messages sent within this time
after another process's purge may be lost to it."""
RECENTLY_USED_MS = 60_000
FILL_RETRY_S = 0.25
FILL_CLOSE_S = 5.0
FILL_WAIT_S = 1.0
"""How long a receive waits for a fill before it returns what the cache has."""

log = structlog.get_logger(__name__)


class KnownQueue:
    """What this process knows of a queue."""

    __slots__ = ("generation", "last_examined", "progress", "q", "read_ms", "reconciled_ms", "seen_empty", "used_ms")

    def __init__(self, q: QueueRef, generation: int, read_ms: int) -> None:
        self.q = q
        self.generation = generation
        self.read_ms = read_ms
        self.used_ms = read_ms
        self.reconciled_ms = read_ms  # up to this time the queue's rows were compared with the cache
        self.seen_empty: dict[str, int] = {}  # closed buckets that were empty, and when that was first seen
        self.last_examined = ""  # the closed bucket that was last examined for being empty
        self.progress = ReconcileProgress(generation)

    def observe_generation(self, generation: int) -> None:
        """Take note of a generation, wherever it comes from. Generations only rise; DROPPED is final."""
        if DROPPED in (generation, self.generation):
            self.generation = DROPPED
        else:
            self.generation = max(generation, self.generation)


class KnownQueues:
    def __init__(self, rows: MessageRows, failover: CacheFailover, clock: Clock) -> None:
        self._rows = rows
        self._failover = failover
        self._clock = clock
        self._known_queues: OrderedDict[str, KnownQueue] = OrderedDict()
        self._next_batch = 0
        self._reads: dict[str, asyncio.Task[KnownQueue]] = {}
        self._fills: dict[str, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[KnownQueue]:
        return iter(list(self._known_queues.values()))

    def next_batch(self, n: int) -> list[KnownQueue]:
        """The next `n` queues in turn."""
        known_queues = list(self._known_queues.values())
        begin = self._next_batch if self._next_batch < len(known_queues) else 0
        self._next_batch = begin + n
        return known_queues[begin : self._next_batch]

    def recently_used(self) -> list[KnownQueue]:
        """The standard queues that this process used recently, those reconciled longest ago first."""
        now_ms = self._clock.wall_ms()
        cached = [queue for queue in self if not queue.q.fifo and queue.generation != DROPPED]
        lately = [queue for queue in cached if now_ms - queue.used_ms < RECENTLY_USED_MS]
        return sorted(lately, key=lambda queue: queue.reconciled_ms)

    async def get(self, q: QueueRef) -> KnownQueue:
        now_ms = self._clock.wall_ms()
        queue = self._known_queues.get(q.id)
        if queue is None or (queue.generation != DROPPED and now_ms - queue.read_ms > GENERATION_AGE_MS_MAX):
            queue = await asyncio.shield(self._reads.get(q.id) or self._read(q))
        queue.q = q
        if now_ms - queue.used_ms >= RECENTLY_USED_MS:
            queue.reconciled_ms = now_ms  # this process was not using the queue, so it missed nothing
        queue.used_ms = now_ms
        return queue

    def _read(self, q: QueueRef) -> asyncio.Task[KnownQueue]:
        """One read for all concurrent callers."""
        read = self._reads[q.id] = asyncio.create_task(self._read_generation(q))
        read.add_done_callback(lambda _: self._reads.pop(q.id))
        return read

    async def _read_generation(self, q: QueueRef) -> KnownQueue:
        now_ms = self._clock.wall_ms()
        generation = await self._rows.generation(q.id)
        known = DROPPED if generation is None else generation
        queue = self._known_queues.get(q.id)
        if queue is None:
            queue = self._known_queues[q.id] = KnownQueue(q, known, now_ms)
            if len(self._known_queues) > KNOWN_MAX:
                self._known_queues.popitem(last=False)
        queue.observe_generation(known)
        queue.read_ms = now_ms
        return queue

    def start_fill(self, queue: KnownQueue) -> asyncio.Task[None]:
        """Fill the queue's cache, unless a fill is running."""
        task = self._fills.get(queue.q.id)
        if task is None:
            task = self._fills[queue.q.id] = asyncio.create_task(self._fill(queue))
            task.add_done_callback(lambda ended: self._fill_ended(queue.q.id, ended))
        return task

    def _fill_ended(self, queue_id: str, task: asyncio.Task[None]) -> None:
        del self._fills[queue_id]
        if not task.cancelled() and (error := task.exception()):  # the next receive starts another fill
            log.warning("queue.cache_fill_failed", queue=queue_id, error=str(error))

    async def wait_for_fill(self, queue: KnownQueue) -> None:
        """Wait for the fill, at most `FILL_WAIT_S`: messages in the cache can be received meanwhile."""
        done, _ = await asyncio.wait({self.start_fill(queue)}, timeout=FILL_WAIT_S)
        for task in done:
            task.result()

    async def _fill(self, queue: KnownQueue) -> None:
        generation = await self._rows.generation(queue.q.id)
        queue.observe_generation(DROPPED if generation is None else generation)
        if generation is None:
            await self._failover.ask(lambda cache: cache.reset(queue.q.id, DROPPED))
            return

        await self._failover.persist_leases(queue.q.id)

        async def walk(cache: Cache) -> bool:
            return await fill_cache(self._rows, cache, queue.q.id, queue.generation)

        while not await self._failover.ask(walk):  # noqa: ASYNC110  # the other filler is in another process
            await asyncio.sleep(FILL_RETRY_S)

    async def close(self) -> None:
        """Wait for running fills: an aborted one would block fills by other processes until its lease ends."""
        fills = set(self._fills.values())
        if fills:
            _, left = await asyncio.wait(fills, timeout=FILL_CLOSE_S)
            for task in left:
                task.cancel()
            await asyncio.gather(*fills, return_exceptions=True)
