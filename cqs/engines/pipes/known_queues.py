"""The queues that this process uses, with what the reaper remembers of each."""

from __future__ import annotations

from cns_common.clock import Clock
from cqs.engines.cassandra import known_queues
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.contract import QueueRef

GENERATION_AGE_MS_MAX = 1_000
"""The greatest age of the generation by which a process receives: an older one is read again."""


class PipesKnownQueue(known_queues.KnownQueue):
    def __init__(self, q: QueueRef, generation: int) -> None:
        super().__init__(q, generation)
        self.examined = ""  # the pipe that the reaper examined last


KnownQueues = known_queues.KnownQueues[PipesKnownQueue]


def new_known_queues(generations: QueueGenerations, clock: Clock) -> KnownQueues:
    return KnownQueues(generations.read, clock, PipesKnownQueue, GENERATION_AGE_MS_MAX)
