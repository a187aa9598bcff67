"""Chooses the locations of sent messages: one open bucket per queue, written by this process only, limited in size.

The writer holds a lease on its bucket: a column that expires by Cassandra's clock. Others seal the bucket only without
a lease. A send is acknowledged only while the lease is valid, so no acknowledged message is written after the seal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import randrange

from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.cluster.lease import Lease, LeaseTimes
from cqs.engines.cluster.ids import COUNTER_BITS, NUMBER_DIGITS, MessageLocation, bucket_name
from cqs.engines.cluster.schema import (
    BUCKET_BYTES_MAX,
    BUCKET_LEASE_CERTAIN_MS,
    BUCKET_LEASE_RENEW_MS,
    BUCKET_ROWS_MAX,
    BUCKET_SPAN_MS,
)

OPEN_MAX = 20_000
"""The most open buckets of this process. Each further queue gets a new bucket."""
NUMBERS = 16**NUMBER_DIGITS
_LEASE_TIMES = LeaseTimes(BUCKET_LEASE_CERTAIN_MS, BUCKET_LEASE_RENEW_MS)


class OpenBucket:
    __slots__ = (
        "_extending",
        "bytes",
        "generation",
        "lease",
        "listed",
        "name",
        "of",
        "queue_id",
        "rows",
        "sealed",
        "start_ms",
        "superseded",
        "writes",
    )

    def __init__(self, queue_id: str, generation: int, start_ms: int, name: str, lease: Lease, of: int = 1) -> None:
        self.queue_id = queue_id
        self.generation = generation
        self.start_ms = start_ms
        self.name = name
        self.lease = lease
        self.of = of  # the number of buckets into which the process wrote in turn
        self.rows = 0
        self.bytes = 0
        self.listed = False  # whether the bucket is in `cqs_buckets`, where readers find it
        self.sealed = False  # another process has sealed it
        self.superseded = False  # no further send begins here
        self.writes = 0  # sends that have not ended
        self._extending: asyncio.Task[None] | None = None

    def extend_lease(self, ask: Callable[[OpenBucket], Awaitable[bool]]) -> asyncio.Task[None]:
        """Extend the lease by one call of `ask` for all senders; without success the bucket is sealed."""
        if self._extending is None:
            self._extending = asyncio.create_task(self._extend_lease(ask))
            self._extending.add_done_callback(self._extended)
        return self._extending

    async def _extend_lease(self, ask: Callable[[OpenBucket], Awaitable[bool]]) -> None:
        self.sealed = not await self.lease.extend(ask(self)) or self.sealed

    def _extended(self, task: asyncio.Task[None]) -> None:
        self._extending = None
        if not task.cancelled():
            task.exception()  # the waiting senders get the error; the next send tries again


class OpenBuckets:
    def __init__(self, node: str, clock: Clock, abandoned: Callable[[OpenBucket], None]) -> None:
        """`abandoned` is called with a bucket into which this process will not write any more."""
        self._node = node
        self._clock = clock
        self._abandoned = abandoned
        self._numbers = count()
        self._next = 0  # sequence numbers rise within the process even if its clock does not
        self._open: BoundedCache[tuple[str, int], OpenBucket] = BoundedCache(OPEN_MAX)

    def begin_write(
        self, queue_id: str, generation: int, sizes: Sequence[int], now_ms: int, buckets: int = 1
    ) -> tuple[OpenBucket, list[MessageLocation]]:
        """Choose a location for each message, in order, all in one bucket, a random one of the process's `buckets`.
        Call `end_write` afterwards."""
        turn = randrange(buckets) if buckets > 1 else 0  # noqa: S311  # no secret
        opened = self._open.get((queue_id, turn))
        if opened is None or opened.of != buckets or not self._has_room(opened, generation, sizes, now_ms):
            opened = self._begin_bucket(queue_id, turn, buckets, generation, now_ms, opened)
        start = opened.start_ms << COUNTER_BITS
        first = max(now_ms << COUNTER_BITS, self._next) - start
        self._next = start + first + len(sizes)
        opened.rows += len(sizes)
        opened.bytes += sum(sizes)
        opened.writes += 1
        return opened, [MessageLocation(opened.name, first + n) for n in range(len(sizes))]

    def _begin_bucket(
        self, queue_id: str, turn: int, of: int, generation: int, now_ms: int, before: OpenBucket | None
    ) -> OpenBucket:
        """Begin a bucket. Its number modulo `of` is `turn`, so that the buckets of one turn are in one shard."""
        number = next(self._numbers) % (NUMBERS // of) * of + turn
        name = bucket_name(generation, now_ms, self._node, number)
        opened = OpenBucket(queue_id, generation, now_ms, name, Lease(self._clock, _LEASE_TIMES), of)
        self._open.put((queue_id, turn), opened)
        if before is not None:
            before.superseded = True
            self._check_abandoned(before)
        return opened

    def end_write(self, opened: OpenBucket) -> None:
        """Record that a send has ended, with or without success."""
        opened.writes -= 1
        self._check_abandoned(opened)

    def _check_abandoned(self, opened: OpenBucket) -> None:
        if opened.superseded and not opened.writes and not opened.sealed:
            self._abandoned(opened)

    @staticmethod
    def _has_room(opened: OpenBucket, generation: int, sizes: Sequence[int], now_ms: int) -> bool:
        return (
            not opened.sealed
            and opened.generation == generation
            and now_ms - opened.start_ms < BUCKET_SPAN_MS
            and opened.rows + len(sizes) <= BUCKET_ROWS_MAX
            and opened.bytes + sum(sizes) <= BUCKET_BYTES_MAX
        )
