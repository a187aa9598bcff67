"""The truth: messages as rows of Cassandra, written, read and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra, Statement
from cns_common.cassandra.session import Row as CassandraRow
from cns_common.clock import Clock
from cqs.engines.cluster import schema
from cqs.engines.cluster.bucket_writer import Buckets
from cqs.engines.cluster.cache_contract import Item
from cqs.engines.cluster.ids import Place, generation_prefix
from cqs.engines.contract import Entry

HOLD_BATCH = 100


class Row(NamedTuple):
    seq: int
    id: str
    body: bytes
    born_at_ms: int
    visible_at_ms: int
    tenant: str
    deliveries: int
    first_at_ms: int


class Sketch(NamedTuple):
    """What a cache keeps of a row."""

    place: Place
    born_at_ms: int
    visible_at_ms: int
    deliveries: int
    first_at_ms: int


class Rows:
    def __init__(self, cassandra: Cassandra, clock: Clock, node: str) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._buckets = Buckets(node)
        self._adding: dict[str, asyncio.Task[list[CassandraRow]]] = {}

    # -- queues -------------------------------------------------------------------------------------------------------

    async def generation(self, queue: str) -> int | None:
        """Its messages are in buckets of this generation only; None when the queue was dropped."""
        rows = await self._cassandra.run(schema.FIND_QUEUE, queue)
        if not rows:
            return 0
        generation, dropped = rows[0]
        return None if dropped else generation or 0

    async def raise_generation(self, queue: str) -> int | None:
        """Leave all that was sent behind; returns the new generation, None when the queue was dropped."""
        while True:
            generation = await self.generation(queue)
            if generation is None:
                return None
            new = generation + 1
            run = self._cassandra.applied
            applied = (
                await run(schema.NEXT_GENERATION, new, queue, generation)
                if generation
                else await run(schema.FIRST_GENERATION, queue, new)
            )
            if applied:
                await self._cassandra.run(schema.ADD_GARBAGE, queue, generation_prefix(new))
                return new

    async def drop(self, queue: str) -> None:
        if not await self._cassandra.applied(schema.DROP_UNKNOWN, queue):
            await self._cassandra.applied(schema.DROP_KNOWN, queue)
        await self._cassandra.run(schema.ADD_GARBAGE, queue, "g")  # above every bucket's name

    # -- messages -----------------------------------------------------------------------------------------------------

    async def insert(self, queue: str, generation: int, entries: Sequence[Entry], now_ms: int) -> list[Place]:
        """One write; a second one beside it when the bucket is new."""
        places = self._buckets.places(queue, generation, [len(entry.body) for entry in entries], now_ms)
        bucket = places[0].bucket
        write_us = self._write_us()
        inserts = [
            (schema.INSERT, _values(queue, place, entry, write_us))
            for place, entry in zip(places, entries, strict=True)
        ]
        writing = (
            self._cassandra.run(schema.INSERT, *inserts[0][1])
            if len(inserts) == 1
            else self._cassandra.run_batch(inserts, logged=False)
        )
        if self._buckets.is_stored(queue, bucket):
            await writing
        else:
            await asyncio.gather(self._add_bucket(queue, bucket), writing)
        return places

    async def _add_bucket(self, queue: str, bucket: str) -> None:
        """Once for all who write the first rows."""
        adding = self._adding.get(bucket)
        if adding is None:
            adding = self._adding[bucket] = asyncio.create_task(self._cassandra.run(schema.ADD_BUCKET, queue, bucket))
            adding.add_done_callback(lambda _: self._adding.pop(bucket))
        await asyncio.shield(adding)
        self._buckets.stored(queue, bucket)

    async def read(self, queue: str, places: Iterable[Place]) -> dict[Place, Row]:
        """Those that are there; one read a bucket, all at once."""
        by_bucket: dict[str, list[int]] = {}
        for place in places:
            by_bucket.setdefault(place.bucket, []).append(place.seq)
        pages = await self._cassandra.run_each(
            schema.READ, [(queue, bucket, seqs) for bucket, seqs in by_bucket.items()]
        )
        return {
            Place(bucket, row[0]): Row(*row)
            for bucket, rows in zip(by_bucket, pages, strict=True)
            for row in rows
            if row[1] is not None  # else only a count or a body that was written beside the delete
        }

    async def count_deliveries(self, queue: str, items: Sequence[Item]) -> None:
        """One batch a bucket."""
        write_us = self._write_us()
        await asyncio.gather(
            *[
                self._cassandra.run_batch([_count(queue, item, write_us) for item in some], logged=False)
                for some in _by_bucket(items)
            ]
        )

    async def hold(self, queue: str, items: Sequence[Item]) -> None:
        """Write down until when messages are hidden, and what of their deliveries is known, a batch after the other."""
        write_us = self._write_us()
        for some in _by_bucket(items):
            for at in range(0, len(some), HOLD_BATCH):
                batch = some[at : at + HOLD_BATCH]
                counts = [_count(queue, item, write_us) for item in batch if item.deliveries]
                holds = [(schema.HOLD, (write_us, item.visible_at_ms, queue, *item.place)) for item in batch]
                await self._cassandra.run_batch([*holds, *counts], logged=False)

    async def replace_body(self, queue: str, place: Place, body: bytes) -> None:
        await self._cassandra.run(schema.REPLACE_BODY, self._write_us(), body, queue, place.bucket, place.seq)

    async def delete(self, queue: str, places: Sequence[Place]) -> None:
        """All at once; of one bucket, in one write."""
        write_us = self._write_us() + schema.DELETE_AHEAD_US
        by_bucket: dict[str, list[tuple[object, ...]]] = {}
        for place in places:
            by_bucket.setdefault(place.bucket, []).append((write_us, queue, place.bucket, place.seq))
        deletes = [
            self._cassandra.run(schema.DELETE, *rows[0])
            if len(rows) == 1
            else self._cassandra.run_batch([(schema.DELETE, values) for values in rows], logged=False)
            for rows in by_bucket.values()
        ]
        if len(deletes) == 1:
            await deletes[0]  # without a task for it
        else:
            await asyncio.gather(*deletes)

    # -- walking ------------------------------------------------------------------------------------------------------

    async def buckets(self, queue: str, after: str) -> list[str]:
        """A page of the queue's buckets, in their order."""
        return [row[0] for row in await self._cassandra.run(schema.LIST_BUCKETS, queue, after)]

    async def page(self, queue: str, bucket: str, after_seq: int, n: int) -> list[Row]:
        rows = await self._cassandra.run(schema.PAGE, queue, bucket, after_seq, n)
        return [Row(*row) for row in rows if row[1] is not None]

    async def sketches(self, queue: str, bucket: str, after_seq: int) -> tuple[list[Sketch], int | None]:
        """A page, and the number to go on after; None at the end."""
        rows = await self._cassandra.run(schema.SKETCHES, queue, bucket, after_seq)
        sketches = [
            Sketch(Place(bucket, seq), born_at, visible_at, deliveries, first_at)
            for seq, message_id, born_at, visible_at, deliveries, first_at in rows
            if message_id is not None
        ]
        return sketches, (rows[-1][0] if len(rows) == schema.PAGE_ROWS else None)

    async def remove_bucket(self, queue: str, bucket: str) -> None:
        """Messages first: while readers find the bucket, nothing is left behind."""
        await self._cassandra.run(schema.EMPTY_BUCKET, queue, bucket)
        await self._cassandra.run(schema.REMOVE_BUCKET, queue, bucket)

    async def garbage(self, n: int) -> list[tuple[str, str]]:
        """(queue, name all its buckets below which are garbage)"""
        return [(row[0], row[1]) for row in await self._cassandra.run(schema.LIST_GARBAGE, n)]

    async def forget_garbage(self, queue: str) -> None:
        await self._cassandra.run(schema.REMOVE_GARBAGE, queue)

    def _write_us(self) -> int:
        """Wall time: a test clock that was moved must not date writes after deletes."""
        return self._clock.wall_ms() * 1000


def _values(queue: str, place: Place, entry: Entry, write_us: int) -> tuple[object, ...]:
    return (
        queue,
        place.bucket,
        place.seq,
        entry.id,
        entry.body,
        entry.born_at_ms,
        entry.visible_at_ms,
        entry.group,
        entry.deliveries,
        entry.first_received_ms,
        write_us,
    )


def _by_bucket(items: Sequence[Item]) -> Iterable[list[Item]]:
    buckets: dict[str, list[Item]] = {}
    for item in items:
        buckets.setdefault(item.place.bucket, []).append(item)
    return buckets.values()


def _count(queue: str, item: Item, write_us: int) -> tuple[Statement, tuple[object, ...]]:
    return schema.COUNT_DELIVERY, (write_us, item.deliveries, item.first_at_ms, queue, *item.place)
