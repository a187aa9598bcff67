"""The queues that a process uses, and the generation of each as it knows it.

A receive may use a generation that was read some time ago: the messages of an older one were purged, and SQS may return
those for a minute. A send may not, nor may a call for a newer handle, whose message would seem to be gone: `send` and
`get_for` read the generation themselves.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import structlog

from cns_common.clock import Clock
from cns_common.cluster.stopwatch import start_stopwatch
from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.cassandra.generations import DROPPED, GenerationReads, ReadGeneration
from cqs.engines.cassandra.standard_engine import UsedQueues
from cqs.engines.contract import QueueRef

KNOWN_MAX = 20_000
GENERATION_AGE_MS_MAX = 5_000
"""The greatest age of the generation by which a process receives: an older one is read again."""
GENERATIONS_MAX = 5
"""The most purges that one send may meet before it fails."""
CERTAIN_MS = 1_000
"""A send that took longer reads the generation again. So a purge removes its messages only if the two calls overlapped,
and the send returned within this time after the purge."""


log = structlog.get_logger(__name__)


class MaintainedQueue(Protocol):
    q: QueueRef
    generation: int


Q = TypeVar("Q", bound=MaintainedQueue)


class MaintenanceTurns(Generic[Q]):
    """Maintains queues in turn. A step begins with the queue after the one at which the step before ended: a queue that
    uses up every budget does not keep the others from being maintained."""

    def __init__(self, queues: Iterable[Q], at_once: int) -> None:
        """`at_once`: the most queues of one step."""
        self._queues = queues
        self._at_once = at_once
        self._next = 0

    async def step(self, maintain: Callable[[Q, int], Awaitable[int]], budget: int) -> int:
        """Maintain queues that are not dropped, one after the other, until `budget` is used up; returns how much was
        used. `maintain` gets a queue and the rest of the budget. If it fails, the others go on."""
        queues = list(self._queues)
        first = self._next if self._next < len(queues) else 0
        done = 0
        for queue in (queues[first:] + queues[:first])[: self._at_once]:
            if done >= budget:
                break
            first += 1
            if queue.generation == DROPPED:
                continue
            try:
                done += await maintain(queue, budget - done)
            except CnsError as error:
                log.warning("queue.maintenance_failed", queue=queue.q.id, error=str(error))
        self._next = first % len(queues) if queues else 0
        return done


class KnownQueue:
    """A queue as this process knows it."""

    __slots__ = ("generation", "q", "read_ms")

    def __init__(self, q: QueueRef, generation: int) -> None:
        self.q = q
        self.generation = generation
        self.read_ms = 0
        """When the generation was read."""

    def observe_generation(self, generation: int) -> None:
        """Take note of a generation, wherever it comes from. Generations only rise; DROPPED is final."""
        if DROPPED in (generation, self.generation):
            self.generation = DROPPED
        else:
            self.generation = max(generation, self.generation)


K = TypeVar("K", bound=KnownQueue)
T = TypeVar("T")


class KnownQueues(UsedQueues, Generic[K]):
    def __init__(
        self, read_generation: ReadGeneration, clock: Clock, make: Callable[[QueueRef, int], K], age_ms_max: int
    ) -> None:
        """`make` gets a queue and its generation."""
        self._reads = GenerationReads(read_generation)
        self._clock = clock
        self._make = make
        self._age_ms = age_ms_max
        self._known: OrderedDict[str, K] = OrderedDict()

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._known.values()))

    def find(self, queue_id: str) -> K | None:
        return self._known.get(queue_id)

    async def get(self, q: QueueRef) -> K:
        queue = self._known.get(q.id)
        if queue is None or self._is_old(queue):
            queue = await self.refresh(q)
        queue.q = q
        return queue

    async def get_for(self, q: QueueRef, generations: Iterable[int]) -> K:
        """For handles of messages of these generations: one newer than the known one means that another process
        purged."""
        queue = await self.get(q)
        if queue.generation != DROPPED and max(generations, default=0) > queue.generation:
            return await self.refresh(q)
        return queue

    async def refresh(self, q: QueueRef) -> K:
        """Read the generation now."""
        asked_ms = self._clock.wall_ms()
        generation = await self._reads.read(q)
        queue = self._known.get(q.id)
        if queue is None:
            queue = self._known[q.id] = self._make(q, generation)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        queue.observe_generation(generation)
        queue.read_ms = max(queue.read_ms, asked_ms)
        return queue

    async def observe_generation(self, q: QueueRef, generation: int) -> None:
        """Record that this process purged or dropped the queue."""
        (await self.get(q)).observe_generation(generation)

    async def send(self, queue: K, write: Callable[[int], Awaitable[T]]) -> T | None:
        """Write messages into a generation that is current at some time during this call: it is read in parallel, and
        if it differs, the write is repeated. None if the queue is dropped."""
        for _ in range(GENERATIONS_MAX):
            generation, began = queue.generation, start_stopwatch(self._clock)
            if generation == DROPPED:
                return None
            reading = self._reads.begin(queue.q)
            written = await write(generation)
            queue.observe_generation(await asyncio.shield(reading))
            if began.elapsed_ms(self._clock) > CERTAIN_MS:
                queue.observe_generation(await self._reads.read(queue.q))
            if queue.generation == generation:
                return written
        raise StoreUnavailable("the queue is purged again and again")

    def _is_old(self, queue: K) -> bool:
        return queue.generation != DROPPED and self._clock.wall_ms() - queue.read_ms > self._age_ms_max(queue)

    def _age_ms_max(self, queue: K) -> int:
        """The greatest age of the generation by which a process receives: an older one is read again."""
        return self._age_ms
