"""The three pointers of a queue, each the number of a bucket; they only rise.

reader: the bucket that consumers read. repair: the first bucket that is not finalized. invisibility: the first bucket
whose hidden messages are not in the table of hidden messages. They may be at different buckets. A process may know an
older value: it then finds buckets that are already sealed.
"""

from __future__ import annotations

import enum

from cns_common.cassandra.session import Cassandra
from cqs.engines.cassieq import schema


class Pointer(enum.StrEnum):
    READER = "reader"
    REPAIR = "repair"
    INVISIBILITY = "invisibility"
    REMOVED = "removed"
    """The first bucket of an ended generation that was not removed yet."""


class QueuePointers:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def read(self, key: str, pointer: Pointer) -> int:
        rows = await self._cassandra.run(schema.READ_POINTER, key, pointer)
        return int(rows[0][0] or 0) if rows else 0

    async def move(self, key: str, pointer: Pointer, before: int, to: int) -> int:
        """Move the pointer, unless another process moved it. Returns where it is."""
        if before:
            rows = await self._cassandra.run(schema.NEXT_POINTER, to, key, pointer, before)
        else:
            rows = await self._cassandra.run(schema.FIRST_POINTER, to, key, pointer)
        return to if rows[0][0] else int(rows[0][1] or 0)

    async def advance(self, key: str, pointer: Pointer, before: int, to: int) -> None:
        """Move the pointer to `to`, unless it is there or further. `before` is its presumed value."""
        while before < to:
            before = await self.move(key, pointer, before, to)
