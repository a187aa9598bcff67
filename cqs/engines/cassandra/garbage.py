"""The generations of purged and dropped queues whose rows an engine has still to remove."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.cassandra.session import Cassandra
from cqs.engines.cassandra import schema

EVERY_GENERATION = 2**31 - 1
"""`Garbage.below` of a dropped queue."""


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

    async def some(self, n: int) -> list[Garbage]:
        """Up to `n` entries."""
        return [Garbage(*row) for row in await self._cassandra.run(schema.LIST_GARBAGE, self._engine, n)]

    async def forget(self, garbage: Garbage) -> None:
        """Remove exactly this entry: a purge that came meanwhile has another one."""
        await self._cassandra.run(schema.REMOVE_GARBAGE, self._engine, *garbage)
