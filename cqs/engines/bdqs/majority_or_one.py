"""Reads and writes of what all processes of a queue share: its generation, and the list of its slots.

A queue whose messages are on one replica has these on a majority while one answers, so that every process learns of a
purge or a new slot at once; else on one replica, as its messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cns_common.cassandra.session import Consistency
from cns_common.clock import Clock
from cns_common.errors import CnsError

ALONE_MS = 5_000
"""After a majority did not answer, one replica is asked for so long."""

T = TypeVar("T")


class MajorityOrOne:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alone_until_ms = 0

    async def run(self, level: Consistency, statement: Callable[[Consistency], Awaitable[T]]) -> T:
        """Run a statement that may be repeated, for a queue whose messages are read and written at `level`. It gets the
        level for itself. Raises StoreUnavailable or OutcomeUnknown."""
        if level is not Consistency.ONE:
            return await statement(Consistency.QUORUM)
        if self._clock.monotonic_ms() >= self._alone_until_ms:
            try:
                return await statement(Consistency.QUORUM)
            except CnsError:
                self._alone_until_ms = self._clock.monotonic_ms() + ALONE_MS
        return await statement(Consistency.ONE)
