"""Reads and writes messages as rows of Cassandra, which are the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra, Statement
from cns_common.cassandra.session import Row as CassandraRow
from cns_common.clock import Clock
from cqs.engines.cluster import schema
from cqs.engines.cluster.bucket_writer import OpenBuckets
from cqs.engines.cluster.cache_contract import CachedMessage
from cqs.engines.cluster.ids import MessageLocation, generation_prefix
from cqs.engines.contract import Entry

HIDE_BATCH = 100


class MessageRow(NamedTuple):
    seq: int
    id: str
    body: bytes
    born_at_ms: int
    visible_at_ms: int
    tenant: str
    deliveries: int
    first_at_ms: int


class RowHeader(NamedTuple):
    """A row without its body: what the cache needs."""

    location: MessageLocation
    born_at_ms: int
    visible_at_ms: int
    deliveries: int
    first_at_ms: int


class MessageRows:
    def __init__(self, cassandra: Cassandra, clock: Clock, node: str) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._open_buckets = OpenBuckets(node)
        self._adding: dict[str, asyncio.Task[list[CassandraRow]]] = {}

    # -- queues -------------------------------------------------------------------------------------------------------

    async def generation(self, queue_id: str) -> int | None:
        """The queue's generation: its messages are in buckets of this generation only. None if the queue was
        dropped."""
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
                await self._cassandra.run(schema.ADD_GARBAGE, queue_id, generation_prefix(new))
                return new

    async def drop(self, queue_id: str) -> None:
        if not await self._cassandra.run_conditional(schema.DROP_UNKNOWN, queue_id):
            await self._cassandra.run_conditional(schema.DROP_KNOWN, queue_id)
        await self._cassandra.run(schema.ADD_GARBAGE, queue_id, "g")  # sorts after every bucket's name

    # -- messages -----------------------------------------------------------------------------------------------------

    async def insert(
        self, queue_id: str, generation: int, entries: Sequence[Entry], now_ms: int
    ) -> list[MessageLocation]:
        """One write, and another in parallel if the bucket is new."""
        locations = self._open_buckets.allocate(queue_id, generation, [len(entry.body) for entry in entries], now_ms)
        bucket = locations[0].bucket
        write_us = self._write_us()
        inserts = [
            (schema.INSERT, _values(queue_id, location, entry, write_us))
            for location, entry in zip(locations, entries, strict=True)
        ]
        writing = (
            self._cassandra.run(schema.INSERT, *inserts[0][1])
            if len(inserts) == 1
            else self._cassandra.run_batch(inserts, logged=False)
        )
        if self._open_buckets.is_listed(queue_id, bucket):
            await writing
        else:
            await asyncio.gather(self._add_bucket(queue_id, bucket), writing)
        return locations

    async def _add_bucket(self, queue_id: str, bucket: str) -> None:
        """One write for all senders of the bucket's first rows."""
        adding = self._adding.get(bucket)
        if adding is None:
            adding = self._adding[bucket] = asyncio.create_task(
                self._cassandra.run(schema.ADD_BUCKET, queue_id, bucket)
            )
            adding.add_done_callback(lambda _: self._adding.pop(bucket))
        await asyncio.shield(adding)
        self._open_buckets.mark_listed(queue_id, bucket)

    async def read(self, queue_id: str, locations: Iterable[MessageLocation]) -> dict[MessageLocation, MessageRow]:
        """The rows that exist: one read per bucket, in parallel."""
        by_bucket: dict[str, list[int]] = {}
        for location in locations:
            by_bucket.setdefault(location.bucket, []).append(location.seq)
        pages = await self._cassandra.run_each(
            schema.READ, [(queue_id, bucket, seqs) for bucket, seqs in by_bucket.items()]
        )
        return {
            MessageLocation(bucket, row[0]): MessageRow(*row)
            for bucket, rows in zip(by_bucket, pages, strict=True)
            for row in rows
            if row[1] is not None  # else the row has only a count or a body written after its delete
        }

    async def count_deliveries(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """One batch per bucket."""
        write_us = self._write_us()
        await asyncio.gather(
            *[
                self._cassandra.run_batch([_count(queue_id, item, write_us) for item in some], logged=False)
                for some in _by_bucket(items)
            ]
        )

    async def keep_hidden(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """Save when messages become visible, and their known deliveries, one batch after the other."""
        write_us = self._write_us()
        for some in _by_bucket(items):
            for at in range(0, len(some), HIDE_BATCH):
                batch = some[at : at + HIDE_BATCH]
                counts = [_count(queue_id, item, write_us) for item in batch if item.deliveries]
                holds = [
                    (schema.SET_VISIBLE_AT, (write_us, item.visible_at_ms, queue_id, *item.location)) for item in batch
                ]
                await self._cassandra.run_batch([*holds, *counts], logged=False)

    async def replace_body(self, queue_id: str, location: MessageLocation, body: bytes) -> None:
        await self._cassandra.run(schema.REPLACE_BODY, self._write_us(), body, queue_id, location.bucket, location.seq)

    async def delete(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        """One write per bucket, in parallel."""
        write_us = self._write_us() + schema.DELETE_AHEAD_US
        by_bucket: dict[str, list[tuple[object, ...]]] = {}
        for location in locations:
            by_bucket.setdefault(location.bucket, []).append((write_us, queue_id, location.bucket, location.seq))
        deletes = [
            self._cassandra.run(schema.DELETE, *rows[0])
            if len(rows) == 1
            else self._cassandra.run_batch([(schema.DELETE, values) for values in rows], logged=False)
            for rows in by_bucket.values()
        ]
        if len(deletes) == 1:
            await deletes[0]  # without the cost of a task
        else:
            await asyncio.gather(*deletes)

    # -- scans and clean-up -------------------------------------------------------------------------------------------

    async def buckets(self, queue_id: str, after: str) -> list[str]:
        """A page of the queue's bucket names, sorted."""
        return [row[0] for row in await self._cassandra.run(schema.LIST_BUCKETS, queue_id, after)]

    async def page(self, queue_id: str, bucket: str, after_seq: int, n: int) -> list[MessageRow]:
        rows = await self._cassandra.run(schema.PAGE, queue_id, bucket, after_seq, n)
        return [MessageRow(*row) for row in rows if row[1] is not None]

    async def headers(self, queue_id: str, bucket: str, after_seq: int) -> tuple[list[RowHeader], int | None]:
        """A page of headers, and the number after which the next page starts; None at the end."""
        rows = await self._cassandra.run(schema.HEADERS, queue_id, bucket, after_seq)
        headers = [
            RowHeader(MessageLocation(bucket, seq), born_at, visible_at, deliveries, first_at)
            for seq, message_id, born_at, visible_at, deliveries, first_at in rows
            if message_id is not None
        ]
        return headers, (rows[-1][0] if len(rows) == schema.PAGE_ROWS else None)

    async def remove_bucket(self, queue_id: str, bucket: str) -> None:
        """Messages first: readers find the bucket until all are removed."""
        await self._cassandra.run(schema.EMPTY_BUCKET, queue_id, bucket)
        await self._cassandra.run(schema.REMOVE_BUCKET, queue_id, bucket)

    async def garbage(self, n: int) -> list[tuple[str, str]]:
        """(queue id, name before which all its buckets are garbage)"""
        return [(row[0], row[1]) for row in await self._cassandra.run(schema.LIST_GARBAGE, n)]

    async def forget_garbage(self, queue_id: str) -> None:
        await self._cassandra.run(schema.REMOVE_GARBAGE, queue_id)

    def _write_us(self) -> int:
        """The wall clock: a test clock that was advanced must not date writes after deletes."""
        return self._clock.wall_ms() * 1000


def _values(queue_id: str, location: MessageLocation, entry: Entry, write_us: int) -> tuple[object, ...]:
    return (
        queue_id,
        location.bucket,
        location.seq,
        entry.id,
        entry.body,
        entry.born_at_ms,
        entry.visible_at_ms,
        entry.group,
        entry.deliveries,
        entry.first_received_ms,
        write_us,
    )


def _by_bucket(items: Sequence[CachedMessage]) -> Iterable[list[CachedMessage]]:
    buckets: dict[str, list[CachedMessage]] = {}
    for item in items:
        buckets.setdefault(item.location.bucket, []).append(item)
    return buckets.values()


def _count(queue_id: str, item: CachedMessage, write_us: int) -> tuple[Statement, tuple[object, ...]]:
    return schema.COUNT_DELIVERY, (write_us, item.deliveries, item.first_at_ms, queue_id, *item.location)
