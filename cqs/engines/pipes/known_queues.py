"""The queues that this process uses: their generations and their poppers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator

from cns_common.clock import Clock
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.contract import QueueRef

DROPPED = -1
KNOWN_MAX = 20_000
GENERATION_AGE_MS_MAX = 1_000
"""How old a known generation may be: messages sent within this time after another process's purge may be lost to
it."""


class KnownQueue:
    """A queue as this process knows it."""

    __slots__ = ("examined", "generation", "q", "read_ms")

    def __init__(self, q: QueueRef, generation: int, read_ms: int) -> None:
        self.q = q
        self.generation = generation
        self.read_ms = read_ms
        self.examined = ""  # the pipe that the reaper examined last

    def observe_generation(self, generation: int) -> None:
        """Generations only rise; DROPPED is final."""
        if DROPPED in (generation, self.generation):
            self.generation = DROPPED
        else:
            self.generation = max(generation, self.generation)


class KnownQueues:
    def __init__(self, generations: QueueGenerations, clock: Clock) -> None:
        self._generations = generations
        self._clock = clock
        self._known: OrderedDict[str, KnownQueue] = OrderedDict()
        self._reads: dict[str, asyncio.Task[KnownQueue]] = {}
        self._next_batch = 0

    def __iter__(self) -> Iterator[KnownQueue]:
        return iter(list(self._known.values()))

    def next_batch(self, n: int) -> list[KnownQueue]:
        """The next `n` queues in turn."""
        known = list(self._known.values())
        begin = self._next_batch if self._next_batch < len(known) else 0
        self._next_batch = begin + n
        return known[begin : self._next_batch]

    def find(self, queue_id: str) -> KnownQueue | None:
        return self._known.get(queue_id)

    async def get(self, q: QueueRef) -> KnownQueue:
        queue = self._known.get(q.id)
        now_ms = self._clock.monotonic_ms()
        if queue is None or (queue.generation != DROPPED and now_ms - queue.read_ms > GENERATION_AGE_MS_MAX):
            queue = await asyncio.shield(self._reads.get(q.id) or self._read(q))
        queue.q = q
        return queue

    def _read(self, q: QueueRef) -> asyncio.Task[KnownQueue]:
        """One read for all concurrent callers."""
        read = self._reads[q.id] = asyncio.create_task(self._read_generation(q))
        read.add_done_callback(lambda task: self._has_read(q.id, task))
        return read

    def _has_read(self, queue_id: str, task: asyncio.Task[KnownQueue]) -> None:
        del self._reads[queue_id]
        if not task.cancelled():
            task.exception()  # its callers get the error, unless they do not wait any more

    async def _read_generation(self, q: QueueRef) -> KnownQueue:
        begun_ms = self._clock.monotonic_ms()
        read = await self._generations.generation(q.id)
        generation = DROPPED if read is None else read
        queue = self._known.get(q.id)
        if queue is None:
            queue = self._known[q.id] = KnownQueue(q, generation, begun_ms)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        queue.observe_generation(generation)
        queue.read_ms = begun_ms
        return queue
