"""The queues that this process uses: their generations, their pickers and their adaptive K."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict

from cns_common.clock import Clock
from cqs.engines.bdqs.consistency import QueueConsistency
from cqs.engines.bdqs.index import QueueIndex
from cqs.engines.bdqs.order_hint import AUTO, NO_ORDER, AutomaticK
from cqs.engines.bdqs.picker import Picker
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.contract import QueueRef

KNOWN_MAX = 20_000
GENERATION_AGE_MS_MAX = 5_000
"""How old a known generation may be: messages sent within this time after another process's purge may be lost to it."""
DROPPED = -1
ORDER_HINT, CONSISTENCY = "OrderHint", "Consistency"


class KnownQueue:
    """A queue as this process knows it."""

    def __init__(self, q: QueueRef, generation: int, read_ms: int, index: QueueIndex, clock: Clock) -> None:
        self.q = q
        self.generation = generation
        self.read_ms = read_ms
        self.automatic_k = AutomaticK()
        self.last_examined = ""  # the slot that was last examined for being empty
        self._index = index
        self._clock = clock
        self.picker = self._new_picker()

    @property
    def mode(self) -> QueueConsistency:
        return QueueConsistency(self.q.option(CONSISTENCY, QueueConsistency.QUORUM))

    @property
    def k(self) -> int | None:
        """None for no order."""
        hint = self.q.option(ORDER_HINT, AUTO)
        if hint == NO_ORDER:
            return None
        return self.automatic_k.k if hint == AUTO else int(hint)

    def observe_generation(self, generation: int) -> None:
        """Take note of a generation, wherever it comes from. Generations only rise; DROPPED is final."""
        before = self.generation
        self.generation = DROPPED if DROPPED in (generation, before) else max(generation, before)
        if self.generation != before:
            self.picker = self._new_picker()

    def _new_picker(self) -> Picker:
        return Picker(self.q.id, self.generation, self._index, self._clock, random.Random())  # noqa: S311  # no secret


class KnownQueues:
    def __init__(self, generations: QueueGenerations, index: QueueIndex, clock: Clock) -> None:
        self._generations = generations
        self._index = index
        self._clock = clock
        self._known: OrderedDict[str, KnownQueue] = OrderedDict()
        self._reads: dict[str, asyncio.Task[KnownQueue]] = {}
        self._next_batch = 0

    def next_batch(self, n: int) -> list[KnownQueue]:
        """The next `n` queues in turn."""
        known = list(self._known.values())
        begin = self._next_batch if self._next_batch < len(known) else 0
        self._next_batch = begin + n
        return known[begin : self._next_batch]

    def known(self, queue_id: str) -> KnownQueue | None:
        return self._known.get(queue_id)

    async def get(self, q: QueueRef) -> KnownQueue:
        queue = self._known.get(q.id)
        if queue is None or (
            queue.generation != DROPPED and self._clock.wall_ms() - queue.read_ms > GENERATION_AGE_MS_MAX
        ):
            queue = await asyncio.shield(self._reads.get(q.id) or self._begin_read(q))
        queue.q = q
        return queue

    def _begin_read(self, q: QueueRef) -> asyncio.Task[KnownQueue]:
        """One read for all concurrent callers."""
        read = self._reads[q.id] = asyncio.create_task(self._read(q))
        read.add_done_callback(lambda _: self._reads.pop(q.id))
        return read

    async def _read(self, q: QueueRef) -> KnownQueue:
        read_ms = self._clock.wall_ms()
        generation = await self._generations.generation(q.id)
        known = DROPPED if generation is None else generation
        queue = self._known.get(q.id)
        if queue is None:
            queue = self._known[q.id] = KnownQueue(q, known, read_ms, self._index, self._clock)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        queue.observe_generation(known)
        queue.read_ms = read_ms
        return queue
