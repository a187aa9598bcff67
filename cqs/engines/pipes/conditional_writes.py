"""Conditional writes to pending messages, one at a time per pipe: Cassandra slows down when they compete for a
partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cns_common.cassandra.session import Cassandra, Statement


class ConditionalWrites:
    """The conditional writes of this process, over all queues."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra
        self._locks: dict[tuple[str, str], tuple[asyncio.Lock, int]] = {}

    async def run(self, queue_id: str, pipe: str, parts: Sequence[tuple[Statement, Sequence[object]]]) -> bool:
        """Returns whether all conditions held; else nothing was written."""
        async with self._only(queue_id, pipe):
            if len(parts) == 1:
                return await self._cassandra.run_conditional(parts[0][0], *parts[0][1])
            return await self._cassandra.run_conditional_batch(parts)

    @asynccontextmanager
    async def _only(self, *key: str) -> AsyncIterator[None]:
        queue_id, pipe = key
        lock, users = self._locks.get((queue_id, pipe), (asyncio.Lock(), 0))
        self._locks[queue_id, pipe] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            _, users = self._locks[queue_id, pipe]
            if users == 1:
                del self._locks[queue_id, pipe]
            else:
                self._locks[queue_id, pipe] = lock, users - 1
