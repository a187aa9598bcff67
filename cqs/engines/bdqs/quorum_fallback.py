"""Reads and writes of what all processes of a queue share: its generation, and the list of its slots.

A queue whose messages are on one replica has these on a majority while one answers, so that every process learns of a
purge or a new slot at once; else on one replica, as its messages. Queues have different replicas, so each has a
majority or not for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from cns_common.bounded_cache import BoundedCache
from cns_common.cassandra.session import Consistency
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable

ALONE_MS = 5_000
"""How long one replica is asked after a majority did not answer."""
PROBE_S = 1.0
"""After that, one caller asks a majority, for this long; the others ask one replica until it answers."""
LATELY_MS = 60_000
"""A queue that was not used for this long after that is read at a majority again."""
QUEUES_MAX = 10_000

T = TypeVar("T")
Run = Callable[[Consistency], Awaitable[T]]


@dataclass(slots=True)
class _DegradedQueue:
    """A queue whose majority did not answer."""

    until_ms: int
    probed: bool = False


class QuorumFallback:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alone: BoundedCache[str, _DegradedQueue] = BoundedCache(QUEUES_MAX)

    async def run(self, queue_id: str, level: Consistency, statement: Run[T]) -> T:
        """Run a statement that may be repeated, for a queue whose messages are read and written at `level`. It gets the
        level for itself. Raises StoreUnavailable or OutcomeUnknown."""
        if level is not Consistency.ONE:
            return await statement(Consistency.QUORUM)
        now_ms, alone = self._clock.monotonic_ms(), self._alone.get(queue_id)
        if alone is None or now_ms >= alone.until_ms + LATELY_MS:
            try:
                return await statement(Consistency.QUORUM)
            except (StoreUnavailable, OutcomeUnknown):
                self._note_alone(queue_id)
        elif now_ms >= alone.until_ms and not alone.probed:
            alone.probed = True
            try:
                async with asyncio.timeout(PROBE_S):
                    answer = await statement(Consistency.QUORUM)
            except (StoreUnavailable, OutcomeUnknown, TimeoutError):
                self._note_alone(queue_id)
            else:
                self._alone.forget(queue_id)
                return answer
            finally:
                alone.probed = False
        return await statement(Consistency.ONE)

    def _note_alone(self, queue_id: str) -> None:
        self._alone.put(queue_id, _DegradedQueue(self._clock.monotonic_ms() + ALONE_MS))
