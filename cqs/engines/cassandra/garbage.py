"""The generations of purged and dropped queues whose rows an engine has yet to remove."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra
from cqs.engines.cassandra import schema

EVERY_GENERATION = 2**31 - 1
"""`Garbage.below` of a dropped queue."""
LISTED_AT_ONCE = 100


class Garbage(NamedTuple):
    queue_id: str
    below: int
    """The rows of all generations before this one are garbage."""


class GarbageList:
    """The garbage of one engine. Any process may remove it; an entry stays until `forget`."""

    def __init__(self, cassandra: Cassandra, engine: str) -> None:
        self._cassandra = cassandra
        self._engine = engine

    async def add(self, garbage: Garbage) -> None:
        """Call it after the generation was raised or the queue dropped: before, the rows may still be current."""
        await self._cassandra.run(schema.ADD_GARBAGE, self._engine, *garbage)

    async def next_batch(self, n: int) -> list[Garbage]:
        """Up to `n` entries."""
        return [Garbage(*row) for row in await self._cassandra.run(schema.LIST_GARBAGE, self._engine, n)]

    async def clear(self, remove: Callable[[Garbage, int], Awaitable[int]], budget: int) -> int:
        """Remove the rows of all queues' garbage, up to `budget`; returns how many. `remove` gets an entry and a limit,
        and returns how many rows it removed: fewer than the limit, if nothing is left."""
        done = 0
        while done < budget:
            listed = await self.next_batch(LISTED_AT_ONCE)
            if not listed:
                break
            for garbage in listed:
                done += await remove(garbage, budget - done)
                if done >= budget:
                    return done
                await self.forget(garbage)
        return done

    async def forget(self, garbage: Garbage) -> None:
        """Remove exactly this entry: a purge since then has an entry of its own."""
        await self._cassandra.run(schema.REMOVE_GARBAGE, self._engine, *garbage)
