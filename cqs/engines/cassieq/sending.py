"""Sends messages: allocates numbers, writes the rows, then checks whether their buckets were sealed.

A slow sender may write into a sealed bucket, which readers have left. So it checks after its write, takes back a
message in a sealed bucket and sends it again under a later number. A reader reads a bucket again after it sealed it, so
one of the two sees the other. No acknowledged message depends on repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cns_common.clock import Clock
from cns_common.cluster.stopwatch import Stopwatch, start_stopwatch
from cns_common.errors import StoreUnavailable
from cns_common.ids import hex_id
from cqs.engines.cassieq.bucket_writes import BucketWrites, acknowledge
from cqs.engines.cassieq.ids import TAG_DIGITS, bucket_of, sequence_of
from cqs.engines.cassieq.known_queues import CassieqKnownQueue, CassieqKnownQueues
from cqs.engines.cassieq.monotons import Monotons
from cqs.engines.cassieq.options import id_range
from cqs.engines.cassieq.rows import CassieqRows, NewRow
from cqs.engines.contract import Entry, QueueRef, RejectedEntry, SentEntry

CERTAIN_MS = 600_000
"""A sender that took longer treats each bucket as sealed: the seal may have expired."""
TRIES_MAX = 8


class CassieqSender:
    def __init__(
        self,
        rows: CassieqRows,
        writes: BucketWrites,
        monotons: Monotons,
        known_queues: CassieqKnownQueues,
        clock: Clock,
    ) -> None:
        self._rows = rows
        self._writes = writes
        self._monotons = monotons
        self._known_queues = known_queues
        self._clock = clock
        self.resent = 0
        """How many messages were written into sealed buckets."""

    async def send(self, q: QueueRef, entries: Sequence[Entry]) -> list[SentEntry | RejectedEntry]:
        known = await self._known_queues.get(q)
        sent: dict[int, SentEntry] = {}
        left = list(range(len(entries)))
        for _ in range(TRIES_MAX):
            if known.dropped:
                return [RejectedEntry() for _ in entries]
            began = start_stopwatch(self._clock)
            placed = await self._insert(known, [entries[at] for at in left])
            current, gone = await self._look(known, q, placed, began)
            if current is not known:  # purged or dropped meanwhile
                known = current
                continue
            for at, message in zip(left, placed, strict=True):
                if message.monoton not in gone:
                    sent[at] = SentEntry(entries[at].id, sequence_of(known.generation, message.monoton))
            left = [at for at in left if at not in sent]
            if not left:
                return [sent[at] for at in range(len(entries))]
            self.resent += len(left)
        raise StoreUnavailable("the queue's buckets are sealed again and again")

    async def _insert(self, known: CassieqKnownQueue, entries: Sequence[Entry]) -> list[NewRow]:
        """Take numbers and write the rows: one write per bucket."""
        monotons = await self._monotons.take(known.key, len(entries), id_range(known.q), known.size)
        messages = [new_message(monoton, entry) for monoton, entry in zip(monotons, entries, strict=True)]
        await asyncio.gather(
            *[self._rows.insert(known.key, bucket, some) for bucket, some in _by_bucket(known, messages).items()]
        )
        known.next_monoton = max(known.next_monoton, monotons[-1] + 1)
        return messages

    async def _look(
        self, known: CassieqKnownQueue, q: QueueRef, messages: Sequence[NewRow], began: Stopwatch
    ) -> tuple[CassieqKnownQueue, set[int]]:
        """The queue as it is now, and the messages that were taken back."""
        by_bucket = _by_bucket(known, messages)
        current, sealed = await asyncio.gather(
            self._known_queues.refresh(q),
            asyncio.gather(*[self._rows.sealed(known.key, bucket) for bucket in by_bucket]),
        )
        late = began.elapsed_ms(self._clock) > CERTAIN_MS
        gone: set[int] = set()
        for (bucket, some), is_sealed in zip(by_bucket.items(), sealed, strict=True):
            if is_sealed or late:
                gone |= await self._take_back(known, bucket, some)
        return current, gone

    async def _take_back(self, known: CassieqKnownQueue, bucket: int, messages: Sequence[NewRow]) -> set[int]:
        """Take back messages that no receiver or repair has read yet, and return their monotons."""
        results = await self._writes.apply(
            known.key, bucket, [acknowledge(message.monoton, 0, message.tag) for message in messages]
        )
        return {
            message.monoton
            for message, result in zip(messages, results, strict=True)
            if result.applied or result.row is None
        }


def new_message(monoton: int, entry: Entry) -> NewRow:
    """The row of an entry under this number."""
    return NewRow(
        monoton,
        entry.id,
        entry.body,
        entry.born_at_ms,
        entry.group,
        hex_id()[:TAG_DIGITS],
        entry.visible_at_ms,
        entry.deliveries,
        entry.first_received_ms,
    )


def _by_bucket(known: CassieqKnownQueue, messages: Sequence[NewRow]) -> dict[int, list[NewRow]]:
    buckets: dict[int, list[NewRow]] = {}
    for message in messages:
        buckets.setdefault(bucket_of(message.monoton, known.size), []).append(message)
    return buckets
