"""The generation of each queue: a purge begins a new one in O(1), and a dropped queue has none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cns_common.cassandra.session import Cassandra
from cqs.engines.cassandra import schema

DROPPED = -1
"""The generation of a dropped queue, where it is a number."""


class QueueGenerations:
    """The truth, read from Cassandra each time. An engine may remember a generation for a bounded time."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def generation(self, queue_id: str) -> int | None:
        """The queue's generation: 0 until its first purge. None if the queue was dropped."""
        rows = await self._cassandra.run(schema.FIND_QUEUE, queue_id)
        if not rows:
            return 0
        generation, dropped = rows[0]
        return None if dropped else generation or 0

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
    """Reads generations for many callers at once. Each gets one that was read after it asked."""

    def __init__(self, generation: Callable[[str], Awaitable[int | None]]) -> None:
        self._generation = generation
        self._running: dict[str, asyncio.Task[int]] = {}
        self._next: dict[str, asyncio.Task[int]] = {}

    async def read(self, queue_id: str) -> int:
        return await asyncio.shield(self.begin(queue_id))

    def begin(self, queue_id: str) -> asyncio.Task[int]:
        """A read that begins after the one under way, for all who ask until then. Shield it: others wait, too."""
        task = self._next.get(queue_id)
        if task is None:
            task = self._next[queue_id] = asyncio.create_task(self._read(queue_id, self._running.get(queue_id)))
            task.add_done_callback(_retrieve)
        return task

    async def _read(self, queue_id: str, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait({before})
        this = self._running[queue_id] = self._next.pop(queue_id)
        try:
            generation = await self._generation(queue_id)
        finally:
            if self._running.get(queue_id) is this:
                del self._running[queue_id]
        return DROPPED if generation is None else generation


def _retrieve(task: asyncio.Task[int]) -> None:
    if not task.cancelled():
        task.exception()  # its callers get it, unless they do not wait any more
