"""The generation of each queue: a purge begins a new one in O(1), and a dropped queue has none."""

from __future__ import annotations

from cns_common.cassandra.session import Cassandra
from cqs.engines.cassandra import schema


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
