"""The queues that this process uses: their generations, their pickers and their adaptive K."""

from __future__ import annotations

import random

from cns_common.clock import Clock
from cqs.engines.bdqs.consistency import QueueConsistency
from cqs.engines.bdqs.index import QueueIndex
from cqs.engines.bdqs.order_hint import AUTO, NO_ORDER, AutomaticK
from cqs.engines.bdqs.picker import Picker
from cqs.engines.bdqs.quorum_fallback import QuorumFallback
from cqs.engines.cassandra import known_queues
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.contract import QueueRef

AGE_MS_MAX = 5_000
"""The greatest age of the generation by which a process receives: an older one is read again."""
ORDER_HINT, CONSISTENCY = "OrderHint", "Consistency"


class BdqsKnownQueue(known_queues.KnownQueue):
    def __init__(self, q: QueueRef, generation: int, index: QueueIndex, clock: Clock) -> None:
        super().__init__(q, generation)
        self.automatic_k = AutomaticK()
        self.last_examined = ""  # the slot that was last examined for being empty
        self._index = index
        self._clock = clock
        self.picker = self._new_picker()

    @property
    def mode(self) -> QueueConsistency:
        return _mode_of(self.q)

    @property
    def k(self) -> int | None:
        """None: messages are received in any order."""
        hint = self.q.option(ORDER_HINT, AUTO)
        if hint == NO_ORDER:
            return None
        return self.automatic_k.k if hint == AUTO else int(hint)

    def observe_generation(self, generation: int) -> None:
        before = self.generation
        super().observe_generation(generation)
        if self.generation != before:
            self.picker = self._new_picker()

    def _new_picker(self) -> Picker:
        return Picker(self.q.id, self.generation, self._index, self._clock, random.Random())  # noqa: S311  # no secret


KnownQueues = known_queues.KnownQueues[BdqsKnownQueue]


def _mode_of(q: QueueRef) -> QueueConsistency:
    return QueueConsistency(q.option(CONSISTENCY, QueueConsistency.QUORUM))


def new_known_queues(
    generations: QueueGenerations, shared: QuorumFallback, index: QueueIndex, clock: Clock
) -> KnownQueues:
    async def read_generation(q: QueueRef) -> int | None:
        return await shared.run(q.id, _mode_of(q).level, lambda level: generations.generation(q.id, level))

    return KnownQueues(
        read_generation, clock, lambda q, generation: BdqsKnownQueue(q, generation, index, clock), AGE_MS_MAX
    )
