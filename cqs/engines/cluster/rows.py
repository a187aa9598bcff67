"""Reads and writes messages as rows of Cassandra. A message exists exactly while its row does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.errors import CnsError, StoreUnavailable
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cassandra.expired import ExpiredList
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.cassandra.retention import RetentionPeriods
from cqs.engines.cluster import schema
from cqs.engines.cluster.bucket_writer import OpenBucket, OpenBuckets
from cqs.engines.cluster.cache_contract import CachedMessage
from cqs.engines.cluster.ids import MessageLocation, generation_prefix
from cqs.engines.contract import Entry

HIDE_BATCH = 100
FIRST_ROWS = 10
SEALS_MAX = 5
"""The most seals that one send may meet before it fails."""


class MessageRow(NamedTuple):
    seq: int
    id: str
    body: bytes
    born_at_ms: int
    visible_at_ms: int
    tenant: str
    deliveries: int
    first_at_ms: int
    taken: str | None = None
    """The cache's epoch in which the message was last delivered without Redis."""

    def due_ms(self, now_ms: int) -> int:
        """See `RowHeader.due_ms`."""
        return _due_ms(self.born_at_ms, self.visible_at_ms, now_ms)


class RowHeader(NamedTuple):
    """A row without its body: what the cache needs."""

    location: MessageLocation
    born_at_ms: int
    visible_at_ms: int
    deliveries: int
    first_at_ms: int
    id: str
    tenant: str

    def due_ms(self, now_ms: int) -> int:
        """When it becomes visible. A message without a delay is visible by `now_ms`, even if its sender's clock was
        ahead."""
        return _due_ms(self.born_at_ms, self.visible_at_ms, now_ms)


class ListedBucket(NamedTuple):
    name: str
    state: str | None
    """`open` or `sealed`; None if an older version opened it."""
    leased: bool
    """Whether its writer has a lease."""
    state_us: int
    """When Cassandra wrote the state."""

    @property
    def sealed(self) -> bool:
        """Whether no message is added to it any more."""
        return self.state == schema.SEALED


class ListedGarbage(NamedTuple):
    queue_id: str
    below: str
    """The name before which all buckets of the queue are garbage."""
    written_us: int
    """When the entry was written."""


class MessageRows:
    def __init__(self, cassandra: Cassandra, clock: Clock, node: str) -> None:
        self._cassandra = cassandra
        self._generations = QueueGenerations(cassandra)
        self._clock = clock
        self.node = node
        self.expired = ExpiredList(cassandra, "cqs_expired")
        self.retentions = RetentionPeriods(cassandra)
        self._open_buckets = OpenBuckets(node, clock, self._seal_soon)
        self._seals: set[asyncio.Task[None]] = set()
        self._last_write_us = 0

    def with_own_buckets(self) -> MessageRows:
        """The same process with buckets of its own, which may begin at any time in the past. Only for a new generation
        of a queue: a bucket's name would be used twice in an older one."""
        return MessageRows(self._cassandra, self._clock, self.node)

    async def close(self) -> None:
        await cancel_and_wait(self._seals)

    def now_ms(self) -> int:
        """The message time of this process."""
        return self._clock.now_ms()

    # -- queues -------------------------------------------------------------------------------------------------------

    async def generation(self, queue_id: str) -> int | None:
        """The queue's generation: its messages are in buckets of this generation only. None if the queue was
        dropped."""
        return await self._generations.generation(queue_id)

    async def raise_generation(self, queue_id: str) -> int | None:
        """Begin a new generation, without the messages sent before. Returns it; None if the queue was dropped."""
        new = await self._generations.raise_generation(queue_id)
        if new is not None:
            await self._cassandra.run(schema.ADD_GARBAGE, queue_id, generation_prefix(new))
        return new

    async def drop(self, queue_id: str) -> None:
        await self._generations.drop(queue_id)
        await self._cassandra.run(schema.ADD_GARBAGE, queue_id, "g")  # sorts after every bucket's name
        await self.retentions.forget(queue_id)

    # -- messages -----------------------------------------------------------------------------------------------------

    async def insert(
        self, queue_id: str, generation: int, entries: Sequence[Entry], now_ms: int, buckets: int = 1
    ) -> list[MessageLocation]:
        """Insert the messages by one write into one of `buckets` buckets, and in parallel another write if the bucket
        is new. On return, all are in buckets that were not sealed before."""
        sizes = [len(entry.body) for entry in entries]
        for _ in range(SEALS_MAX):
            opened, locations = self._open_buckets.begin_write(queue_id, generation, sizes, now_ms, buckets)
            try:
                if await self._write(opened, locations, entries):
                    return locations
            finally:
                self._open_buckets.end_write(opened)
            with suppress(CnsError):  # a copy that is left may be delivered, too
                await self.delete(queue_id, locations)
        raise StoreUnavailable("the queue's buckets are sealed again and again")

    async def _write(self, opened: OpenBucket, locations: Sequence[MessageLocation], entries: Sequence[Entry]) -> bool:
        """Returns False if the bucket was sealed, perhaps before the messages were written."""
        write_us = self._write_us()
        inserts = [
            (schema.INSERT, _values(opened.queue_id, location, entry, write_us))
            for location, entry in zip(locations, entries, strict=True)
        ]
        writing = (
            self._cassandra.run(schema.INSERT, *inserts[0][1])
            if len(inserts) == 1
            else self._cassandra.run_batch(inserts, logged=False)
        )
        extending = opened.extend_lease(self._lease_bucket) if opened.lease.is_due else None
        if extending is None or opened.lease.is_certain:
            await writing
        else:
            await asyncio.gather(asyncio.shield(extending), writing)
        while not opened.sealed and not opened.lease.is_certain:  # the writes took long, or the process was stopped
            await asyncio.shield(opened.extend_lease(self._lease_bucket))
        return not opened.sealed

    async def _lease_bucket(self, opened: OpenBucket) -> bool:
        """Open the bucket, later renew its lease. Returns False if it is sealed."""
        if opened.listed:
            return await self._cassandra.run_conditional(schema.LEASE_BUCKET, self.node, opened.queue_id, opened.name)
        if opened.lease.age_ms >= schema.BUCKET_LEASE_CERTAIN_MS:
            return False  # an earlier attempt may have opened it, and others sealed and removed it by now
        opening = [
            (schema.OPEN_BUCKET, (opened.queue_id, opened.name)),
            (schema.LEASE_NEW_BUCKET, (self.node, opened.queue_id, opened.name)),
        ]
        await self._cassandra.run_batch(opening, logged=False)
        opened.listed = True
        return True

    def _seal_soon(self, opened: OpenBucket) -> None:
        sealing = asyncio.create_task(self._seal_own(opened))
        self._seals.add(sealing)
        sealing.add_done_callback(self._seals.discard)

    async def _seal_own(self, opened: OpenBucket) -> None:
        with suppress(CnsError):  # others seal it when the lease has ended
            await self._cassandra.run(schema.SEAL_OWN_BUCKET, opened.queue_id, opened.name)

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

    async def record_taken(self, queue_id: str, epoch: str, locations: Iterable[MessageLocation]) -> None:
        """Save in which epoch of the cache messages were delivered."""
        write_us = self._write_us()
        await self._cassandra.run_each(
            schema.SET_TAKEN, [(write_us, epoch, queue_id, *location) for location in locations]
        )

    async def replace_body(self, queue_id: str, location: MessageLocation, body: bytes) -> None:
        """The new body's write timestamp is above that of the old body, whose writer's clock may be ahead."""
        write_us = self._write_us()
        for (replaced_us,) in await self._cassandra.run(schema.BODY_DATE, queue_id, *location):
            write_us = max(write_us, (replaced_us or 0) + 1)
        await self._cassandra.run(schema.REPLACE_BODY, write_us, body, queue_id, *location)

    async def delete(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        """One write per bucket, in parallel. It supersedes the insert, whatever the clock of the inserting process
        said."""
        now_ms = self._clock.wall_ms()
        by_bucket: dict[str, list[tuple[object, ...]]] = {}
        for location in locations:
            write_us = max(now_ms, location.arrived_ms) * 1000 + schema.DELETE_AHEAD_US
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
        return _headers(bucket, rows), (rows[-1][0] if len(rows) == schema.PAGE_ROWS else None)

    async def first(self, queue_id: str, bucket: str, after_seq: int) -> RowHeader | None:
        """The first message of the bucket after a number."""
        while rows := await self._cassandra.run(schema.FIRST, queue_id, bucket, after_seq, FIRST_ROWS):
            for header in _headers(bucket, rows):
                return header
            after_seq = rows[-1][0]
        return None

    async def last_location(self, queue_id: str, bucket: str) -> MessageLocation | None:
        """The newest message that is left in the bucket."""
        rows = await self._cassandra.run(schema.LAST_SEQ, queue_id, bucket)
        return MessageLocation(bucket, rows[0][0]) if rows else None

    async def listed_buckets(self, queue_id: str, after: str) -> list[ListedBucket]:
        """A page of the queue's buckets, sorted by name."""
        rows = await self._cassandra.run(schema.LIST_BUCKET_STATES, queue_id, after)
        return [ListedBucket(name, state, writer is not None, at_us or 0) for name, state, writer, at_us in rows]

    async def seal(self, queue_id: str, bucket: str) -> bool:
        """Seal a bucket without a valid lease. Returns whether this call sealed it."""
        return await self._cassandra.run_conditional(schema.SEAL_BUCKET, queue_id, bucket)

    async def remove_sealed(self, queue_id: str, bucket: ListedBucket) -> None:
        """Remove a sealed bucket without messages. The deletion does not cover writes with a timestamp after the
        seal."""
        await self._remove(queue_id, bucket.name, bucket.state_us)

    async def remove_garbage(self, queue_id: str, bucket: str) -> None:
        """Remove a bucket of an earlier generation."""
        await self._remove(queue_id, bucket, self._write_us() + schema.DELETE_AHEAD_US)

    async def _remove(self, queue_id: str, bucket: str, until_us: int) -> None:
        """Messages first: readers find the bucket until all are removed."""
        await self._cassandra.run(schema.EMPTY_BUCKET, until_us, queue_id, bucket)
        await self._cassandra.run(schema.REMOVE_BUCKET, queue_id, bucket)

    async def garbage(self, n: int) -> list[ListedGarbage]:
        return [ListedGarbage(*row) for row in await self._cassandra.run(schema.LIST_GARBAGE, n)]

    async def forget_garbage(self, garbage: ListedGarbage) -> None:
        """Remove exactly this entry: a purge since then has an entry of its own."""
        await self._cassandra.run(schema.REMOVE_GARBAGE, garbage.written_us, garbage.queue_id)

    def _write_us(self) -> int:
        """A write timestamp, by the wall clock: an advanced test clock must not put writes after deletes. It rises from
        write to write, since of two writes with one timestamp the greater value wins."""
        self._last_write_us = max(self._clock.wall_ms() * 1000, self._last_write_us + 1)
        return self._last_write_us


def _due_ms(born_at_ms: int, visible_at_ms: int, now_ms: int) -> int:
    return min(visible_at_ms, now_ms) if visible_at_ms == born_at_ms else visible_at_ms


def _headers(bucket: str, rows: Iterable[Row]) -> list[RowHeader]:
    """Without rows that have only a count or a body, written after their delete."""
    return [
        RowHeader(MessageLocation(bucket, seq), born_at, visible_at, deliveries, first_at, message_id, tenant)
        for seq, message_id, born_at, visible_at, deliveries, first_at, tenant in rows
        if message_id is not None
    ]


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
