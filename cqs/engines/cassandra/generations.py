"""The generation of each queue: a purge begins a new one in O(1), and a dropped queue has none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cns_common.cassandra.session import Cassandra, Consistency
from cqs.engines.cassandra import schema
from cqs.engines.contract import QueueRef

DROPPED = -1
"""The number that stands for the generation of a dropped queue."""

ReadGeneration = Callable[[QueueRef], Awaitable[int | None]]
"""Reads a queue's generation now; None if the queue was dropped."""


class QueueGenerations:
    """Reads each generation from Cassandra. An engine may cache one for a bounded time."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def generation(self, queue_id: str, level: Consistency = Consistency.QUORUM) -> int | None:
        """The queue's generation: 0 until its first purge. None if the queue was dropped."""
        find = schema.FIND_QUEUE_AT_ONE if level is Consistency.ONE else schema.FIND_QUEUE
        rows = await self._cassandra.run(find, queue_id)
        if not rows:
            return 0
        generation, dropped = rows[0]
        return None if dropped else generation or 0

    async def read(self, q: QueueRef) -> int | None:
        """As `ReadGeneration`."""
        return await self.generation(q.id)

    async def raise_generation(self, queue_id: str) -> int | None:
        """Begin a new generation, without the messages sent before. Returns it; None if the queue was dropped."""
        while True:
            generation = await self.generation(queue_id)
            if generation is None:
                return None
            new = generation + 1
            run = self._cassandra.run_conditional
            applied = (
                await run(schema.NEXT_GENERATION, new, queue_id, generation)
                if generation
                else await run(schema.FIRST_GENERATION, new, queue_id)
            )
            if applied:
                return new

    async def drop(self, queue_id: str) -> None:
        """Record that the queue is dropped. A late request for it finds the record for `REMEMBER_DROPPED_S`."""
        if not await self._cassandra.run_conditional(schema.DROP_UNKNOWN, queue_id):
            await self._cassandra.run_conditional(schema.DROP_KNOWN, queue_id)


class GenerationReads:
    """Shares reads of generations among callers. Each gets one that was read after it asked."""

    def __init__(self, generation: ReadGeneration) -> None:
        self._generation = generation
        self._running: dict[str, asyncio.Task[int]] = {}
        self._next: dict[str, asyncio.Task[int]] = {}

    async def read(self, q: QueueRef) -> int:
        return await asyncio.shield(self.begin(q))

    def begin(self, q: QueueRef) -> asyncio.Task[int]:
        """The read that follows the one under way, shared by all callers until it begins. Shield it, since others await
        it, too."""
        task = self._next.get(q.id)
        if task is None:
            task = self._next[q.id] = asyncio.create_task(self._read(q, self._running.get(q.id)))
            task.add_done_callback(_retrieve)
        return task

    async def _read(self, q: QueueRef, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait({before})
        this = self._running[q.id] = self._next.pop(q.id)
        try:
            generation = await self._generation(q)
        finally:
            if self._running.get(q.id) is this:
                del self._running[q.id]
        return DROPPED if generation is None else generation


def _retrieve(task: asyncio.Task[int]) -> None:
    if not task.cancelled():
        task.exception()  # its callers get it, unless they do not wait any more
