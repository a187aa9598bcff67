"""Reads and inserts of message rows, bucket by bucket, and the seals of buckets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row
from cns_common.clock import Clock
from cqs.engines.cassieq import schema
from cqs.engines.cassieq.bucket import CassieqMessageRow, MessageBucket

BODIES_AT_ONCE = 20
"""The most bodies of one read: each may have 1 MiB, and Cassandra's nodes send each other 128 MiB at most."""


class NewRow(NamedTuple):
    """A message to be inserted."""

    monoton: int
    id: str
    body: bytes
    born_at_ms: int
    tenant: str
    tag: str
    visible_at_ms: int
    deliveries: int
    first_at_ms: int


class CassieqRows:
    def __init__(self, cassandra: Cassandra, clock: Clock) -> None:
        self._cassandra = cassandra
        self._clock = clock

    async def insert(self, key: str, bucket: int, messages: Sequence[NewRow]) -> None:
        """Insert messages by one write. Readers may have left the bucket before: check `sealed` afterwards."""
        parts = [(schema.INSERT, (key, bucket, *message)) for message in messages]
        if len(parts) == 1:
            statement, values = parts[0]
            await self._cassandra.run(statement, *values)
        else:
            await self._cassandra.run_batch(parts, logged=False)

    async def bucket(self, key: str, number: int) -> MessageBucket:
        rows = await self._cassandra.run(schema.READ_BUCKET, key, number)
        return MessageBucket(number, rows[0][-1] if rows else None, tuple(_messages(rows)))

    async def buckets(self, key: str, numbers: Iterable[int]) -> list[MessageBucket]:
        """Read several buckets in parallel."""
        wanted = list(numbers)
        if len(wanted) == 1:
            return [await self.bucket(key, wanted[0])]  # without the cost of a task
        return list(await asyncio.gather(*[self.bucket(key, number) for number in wanted]))

    async def bodies(self, key: str, monotons: dict[int, list[int]]) -> dict[int, bytes]:
        """Read the bodies, by monoton, of monotons that are given by bucket."""
        parts = [
            (key, bucket, some[at : at + BODIES_AT_ONCE])
            for bucket, some in monotons.items()
            for at in range(0, len(some), BODIES_AT_ONCE)
        ]
        pages = await self._cassandra.run_each(schema.READ_BODIES, parts)
        return {monoton: body for rows in pages for monoton, body in rows if body is not None}

    async def seal(self, key: str, number: int, now_ms: int) -> None:
        """Seal a bucket. On return it is sealed, by this process or another."""

        async def attempt() -> bool:
            return await self._cassandra.run_conditional(schema.SEAL, now_ms, key, number)

        await resolve_lost_write(attempt, _not_asked)

    async def sealed(self, key: str, number: int) -> bool:
        """Whether the bucket is sealed. Then readers may have missed messages that were inserted before this call."""
        rows = await self._cassandra.run(schema.READ_SEAL, key, number)
        return any(row[-1] is not None for row in rows)

    async def remove_rows(self, key: str, number: int) -> None:
        """Remove a bucket's rows; its seal stays."""
        await self._cassandra.run(schema.REMOVE_ROWS, self._removed_us(), key, number)

    async def remove_bucket(self, key: str, number: int) -> None:
        """Remove a bucket of an earlier generation."""
        await self._cassandra.run(schema.REMOVE_BUCKET, self._removed_us(), key, number)

    def _removed_us(self) -> int:
        return self._clock.wall_ms() * 1000 + schema.REMOVED_AHEAD_US


async def _not_asked() -> bool:
    return True  # sealed by this process or another


def _messages(rows: Iterable[Row]) -> list[CassieqMessageRow]:
    """The messages of a bucket, without rows that only a conditional write dated after their removal has left."""
    return [CassieqMessageRow(*row[:-1]) for row in rows if row[0] is not None and row[1] is not None]
