"""The queues that this process uses: their generations, their rows in the table of uses, and fills of their cache."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from cns_common.clock import Clock
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cassandra.known_queues import KnownQueue, KnownQueues
from cqs.engines.cluster.cache_contract import Cache
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.ownership.processes import LiveProcesses
from cqs.engines.cluster.ownership.used_queues import UsedQueues, slice_of
from cqs.engines.cluster.refill import FillSlots, fill_cache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.contract import QueueRef

GENERATION_AGE_MS_MAX = 5_000
"""The greatest age of the generation by which a process receives while Redis is away."""
GENERATION_AGE_CACHED_MS_MAX = 60_000
"""The same while Redis, which reports a purge with each answer, is in use."""
NOTE_AGE_MS_MAX = 86_400_000
"""The greatest age of the row which says that this process uses a queue."""
FILL_RETRY_S = 0.25
FILL_CLOSE_S = 5.0
FILL_WAIT_S = 1.0
"""The time that a receive waits for a fill before it returns what the cache has."""

log = structlog.get_logger(__name__)


class ClusterKnownQueue(KnownQueue):
    """A queue as this process knows it."""

    __slots__ = ("deleted", "noted", "noted_ms", "sent_ms", "turn", "used_ms")

    def __init__(self, q: QueueRef, generation: int) -> None:
        super().__init__(q, generation)
        self.used_ms = 0
        self.turn = 0  # counts leases: each begins with the next shard
        self.deleted = 0  # messages that this process deleted since it told the queue's owner
        self.sent_ms = 0  # when this process last sent to the queue
        self.noted: tuple[str, QueueRef] | None = None  # as (name of this process, queue) in the table of uses
        self.noted_ms = 0


class _Fill(NamedTuple):
    task: asyncio.Task[None]
    stepped: asyncio.Event
    """Set once some messages are in the cache, if there are any."""


class ClusterKnownQueues(KnownQueues[ClusterKnownQueue]):
    """For the owners of queues: `used_slices` has the slices in which this process began to use a queue, `sends` the
    time of its first send to each queue, both since the last round of the background work."""

    def __init__(
        self, rows: MessageRows, caches: CacheRouter, clock: Clock, processes: LiveProcesses, used: UsedQueues
    ) -> None:
        super().__init__(lambda q: rows.generation(q.id), clock, ClusterKnownQueue, GENERATION_AGE_CACHED_MS_MAX)
        self._rows = rows
        self._caches = caches
        self._processes = processes
        self._used = used
        self._notes: dict[str, asyncio.Task[None]] = {}
        self._fills: dict[QueueShard, _Fill] = {}
        self._fill_slots = FillSlots()
        self.used_slices: set[int] = set()
        self.sends: dict[str, int] = {}

    async def get(self, q: QueueRef) -> ClusterKnownQueue:
        queue = await super().get(q)
        now_ms = queue.used_ms = self._clock.wall_ms()
        noted = queue.noted
        if noted is None or noted[1] is not q or noted[0] is not self._processes.node or now_ms > queue.noted_ms:
            await self._note(queue, q)
        return queue

    def _age_ms_max(self, queue: ClusterKnownQueue) -> int:
        without_redis = any(self._caches.at(shard).on_fallback for shard in self._caches.shards(queue.q.id))
        return GENERATION_AGE_MS_MAX if without_redis else super()._age_ms_max(queue)

    # -- uses ---------------------------------------------------------------------------------------------------------

    async def _note(self, queue: ClusterKnownQueue, q: QueueRef) -> None:
        """Note in the table of uses that this process uses the queue, unless a recent note says so."""
        noted, now_ms = queue.noted, self._clock.wall_ms()
        if queue.generation == DROPPED:
            return
        if noted is not None and noted[0] is self._processes.node and now_ms <= queue.noted_ms:
            before = noted[1]
            if q.version < before.version or (q.retention_ms, q.audit) == (before.retention_ms, before.audit):
                return
        task = self._notes.get(q.id)
        if task is None:
            task = self._notes[q.id] = asyncio.create_task(self._write_note(queue, q))
            task.add_done_callback(lambda ended: self._note_ended(q.id, ended))
        await asyncio.shield(task)

    async def _write_note(self, queue: ClusterKnownQueue, q: QueueRef) -> None:
        node = self._processes.node
        await self._used.add(q, node)
        queue.noted, queue.noted_ms = (node, q), self._clock.wall_ms() + NOTE_AGE_MS_MAX
        self.used_slices.add(slice_of(q.id))

    def _note_ended(self, queue_id: str, task: asyncio.Task[None]) -> None:
        del self._notes[queue_id]
        if not task.cancelled():
            task.exception()  # the callers get it, unless they do not wait any more

    # -- fills --------------------------------------------------------------------------------------------------------

    def start_fill(self, queue: ClusterKnownQueue, shard: QueueShard) -> _Fill:
        """Fill the shard's cache, unless a fill is running."""
        fill = self._fills.get(shard)
        if fill is None:
            stepped = asyncio.Event()
            fill = self._fills[shard] = _Fill(asyncio.create_task(self._fill(queue, shard, stepped)), stepped)
            fill.task.add_done_callback(lambda ended: self._fill_ended(shard, ended))
        return fill

    def _fill_ended(self, shard: QueueShard, task: asyncio.Task[None]) -> None:
        del self._fills[shard]
        if not task.cancelled() and (error := task.exception()):  # the next receive starts another fill
            log.warning("queue.cache_fill_failed", queue=shard.queue_id, error=str(error))

    async def wait_for_fill(self, queue: ClusterKnownQueue, *shards: QueueShard) -> None:
        """Wait for the fills, at most `FILL_WAIT_S`: messages in the cache can be received meanwhile."""
        done, _ = await asyncio.wait({self.start_fill(queue, one).task for one in shards}, timeout=FILL_WAIT_S)
        for task in done:
            task.result()

    async def wait_for_messages(self, queue: ClusterKnownQueue, shard: QueueShard) -> bool:
        """Wait until the fill has put messages into the cache or has ended, at most `FILL_WAIT_S`. Returns whether it
        has."""
        fill = self.start_fill(queue, shard)
        stepped = asyncio.create_task(fill.stepped.wait())
        try:
            done, _ = await asyncio.wait({fill.task, stepped}, timeout=FILL_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stepped.cancel()
        if fill.task in done:
            fill.task.result()
        return bool(done)

    async def _fill(self, queue: ClusterKnownQueue, shard: QueueShard, stepped: asyncio.Event) -> None:
        generation = await self._rows.generation(queue.q.id)
        queue.observe_generation(DROPPED if generation is None else generation)
        if generation is None:
            await self._caches.ask(shard, lambda cache: cache.reset(shard, DROPPED))
            return

        await self._caches.at(shard).save_hidden(shard)

        async def walk(cache: Cache) -> bool:
            filled = await fill_cache(self._rows, cache, shard, queue.generation, self._fill_slots, stepped.set)
            return filled and self._caches.at(shard).redis in (None, cache)  # Redis may have returned meanwhile

        while True:
            async with self._fill_slots.begun:  # before the cache is chosen: the one in use may change during the wait
                if await self._caches.ask(shard, walk):
                    return
            await asyncio.sleep(FILL_RETRY_S)  # the other filler may be in another process

    async def close(self) -> None:
        """Wait for running fills: an aborted one would block fills by other processes until its lease ends."""
        fills = {fill.task for fill in self._fills.values()}
        if fills:
            await asyncio.wait(fills, timeout=FILL_CLOSE_S)
            await cancel_and_wait(fills)
