"""Runs statements on what all processes of a queue share (its generation, its list of slots) at QUORUM, or else at ONE.

A queue whose messages are on one replica has these on a majority while one answers, so that each process learns of a
purge or a new slot at once; otherwise on one replica. Queues have different replicas, so each queue falls back by
itself.
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
"""After a majority did not answer, statements run on one replica for this long."""
PROBE_S = 1.0
"""Then one caller tries a majority, for this long; until it answers, the others use one replica."""
LATELY_MS = 60_000
"""A queue that is unused for this long after that starts with a majority again."""
QUEUES_MAX = 10_000

T = TypeVar("T")
Run = Callable[[Consistency], Awaitable[T]]


@dataclass(slots=True)
class _DegradedQueue:
    """A queue for which no majority answered."""

    until_ms: int
    probed: bool = False


class QuorumFallback:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alone: BoundedCache[str, _DegradedQueue] = BoundedCache(QUEUES_MAX)

    async def run(self, queue_id: str, level: Consistency, statement: Run[T]) -> T:
        """Run a statement that may be repeated, at the level that it is given, for a queue whose messages have `level`.
        Raises StoreUnavailable or OutcomeUnknown."""
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
