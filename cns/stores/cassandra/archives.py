"""Archives of topics in Cassandra: a partition holds one minute of an archive, or a part of the minute.

A writer starts another part of the minute after it wrote `PART_BYTES` to the last one; this bounds a partition at that
size for each writer. Partitions are listed in an index before they have rows: the archive lists its days, a day its
minutes. All rows expire by their time to live.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import msgspec

from cns.archives.model import SKEW_MS_MAX, ArchivedMessage
from cns.notification import Notification
from cns.stores.cassandra import archive_schema as schema
from cns.stores.contract import ArchiveStore
from cns_common.bounded_cache import BoundedCache
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.store_keys import refuse_bad_keys

BUCKET_MS = SKEW_MS_MAX
"""A message that is archived out of order of time is at most one bucket away from its neighbours."""
PART_BYTES = 16 * 1024 * 1024
BUCKETS_READ = 1_000
DAYS_READ = 400
EXPIRY_MARGIN_S = 86_400
"""Rows outlive their message by this, and index entries by twice this: test clocks run ahead of Cassandra's."""
OPEN_PARTS_CACHED_MAX = 10_000
DROPPED_AT_ONCE = 10

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notification).decode


class ArchiveBucket(NamedTuple):
    """A minute of an archive, and its parts."""

    number: int
    parts: tuple[int, ...]


class OpenPart(NamedTuple):
    """The part of a minute to which this process writes, and the time to live of its index entries."""

    part: int
    size_bytes: int
    life_s: int


@refuse_bad_keys(ArchiveStore)
class CassandraArchiveStore(ArchiveStore):
    """With a `clock` a row lives as long as its message still has; else as long as a new message has."""

    def __init__(
        self,
        cassandra: Cassandra,
        *,
        part_bytes: int = PART_BYTES,
        buckets_read: int = BUCKETS_READ,
        clock: Clock | None = None,
    ) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._part_bytes = part_bytes
        self._buckets_read = buckets_read
        self._open_parts: BoundedCache[tuple[str, int], OpenPart] = BoundedCache(OPEN_PARTS_CACHED_MAX)

    async def append(self, archive_id: str, messages: Sequence[ArchivedMessage]) -> None:
        await asyncio.gather(*[self._append(archive_id, each) for each in messages])

    async def _append(self, archive_id: str, each: ArchivedMessage) -> None:
        bucket = each.at_ms // BUCKET_MS
        record = _encode(each.notification)
        begins_ms = each.at_ms if self._clock is None else max(each.at_ms, self._clock.now_ms())
        life_s = max(each.expires_ms - begins_ms, 0) // 1000 + EXPIRY_MARGIN_S
        part = await self._part(archive_id, bucket, len(record), life_s + EXPIRY_MARGIN_S)
        row = (archive_id, bucket, part, each.key, each.at_ms, each.expires_ms, record, life_s)
        await self._cassandra.run(schema.APPEND, *row)

    async def _part(self, archive_id: str, bucket: int, size_bytes: int, life_s: int) -> int:
        """The part for the next message. It is in the index for at least `life_s`."""
        place = (archive_id, bucket)
        open_part = self._open_parts.get(place)
        full = open_part is not None and open_part.size_bytes + size_bytes > self._part_bytes
        if open_part is not None and not full and open_part.life_s >= life_s:
            self._open_parts.put(place, open_part._replace(size_bytes=open_part.size_bytes + size_bytes))
            return open_part.part
        part = 0 if open_part is None else open_part.part + full
        day = bucket * BUCKET_MS // DAY_MS
        await self._cassandra.run(schema.ENTER_DAY, archive_id, day, life_s)
        await self._cassandra.run(schema.ENTER_BUCKET, archive_id, day, bucket, part, life_s)
        self._open_parts.put(place, OpenPart(part, size_bytes, life_s))
        return part

    async def page(self, archive_id: str, from_ms: int, until_ms: int, after: str, n: int) -> list[ArchivedMessage]:
        """Read one bucket more than the page needs: its messages may sort before some of them, later ones cannot."""
        found: dict[str, ArchivedMessage] = {}
        last = None
        async for bucket in self._buckets(archive_id, from_ms, until_ms):
            if last is not None and bucket.number > last:
                break
            for each in await self._read(archive_id, bucket, (from_ms, until_ms), after, n):
                found[each.key] = each  # a message may be in two parts, if a restarted writer repeated it
            if len(found) >= n and last is None:
                last = bucket.number + 1
        return [found[key] for key in sorted(found)[:n]]

    async def _buckets(self, archive_id: str, from_ms: int, until_ms: int) -> AsyncIterator[ArchiveBucket]:
        first, last = from_ms // BUCKET_MS, (until_ms - 1) // BUCKET_MS
        days = await self._cassandra.run(
            schema.DAYS, archive_id, from_ms // DAY_MS, (until_ms - 1) // DAY_MS, DAYS_READ
        )
        for (day,) in days:
            rows = await self._cassandra.run(schema.BUCKETS, archive_id, day, first, last, self._buckets_read)
            while rows:
                parts: dict[int, list[int]] = {}
                for number, part in rows:
                    parts.setdefault(number, []).append(part)
                for number, some in parts.items():
                    yield ArchiveBucket(number, tuple(some))
                if len(rows) < self._buckets_read:
                    break
                rows = await self._cassandra.run(
                    schema.MORE_BUCKETS, archive_id, day, *rows[-1], last, self._buckets_read
                )

    async def _read(
        self, archive_id: str, bucket: ArchiveBucket, window: tuple[int, int], after: str, n: int
    ) -> list[ArchivedMessage]:
        """At least the first `n` messages of each part that are in the window."""
        pages = await asyncio.gather(
            *[self._read_part(archive_id, bucket.number, part, window, after, n) for part in bucket.parts]
        )
        return [each for page in pages for each in page]

    async def _read_part(
        self, archive_id: str, bucket: int, part: int, window: tuple[int, int], after: str, n: int
    ) -> list[ArchivedMessage]:
        from_ms, until_ms = window
        found: list[ArchivedMessage] = []
        while True:
            rows = await self._cassandra.run(schema.MESSAGES, archive_id, bucket, part, after, n)
            found += [
                ArchivedMessage(at_ms, key, expires_ms, _decode(record))
                for key, at_ms, expires_ms, record in rows
                if from_ms <= at_ms < until_ms
            ]
            if len(rows) < n or len(found) >= n:
                return found
            after = rows[-1][0]

    # -- deleting -----------------------------------------------------------------------------------------------------

    async def drop(self, archive_id: str) -> None:
        await self._cassandra.run(schema.MARK_DROPPED, archive_id)

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Delete partitions of dropped archives, counting partitions. Old messages expire by their time to live."""
        done = 0
        for (archive_id,) in await self._cassandra.run(schema.DROPPED, DROPPED_AT_ONCE):
            done += await self._sweep(archive_id, now_ms, budget - done)
            if done >= budget:
                break
        return done

    async def _sweep(self, archive_id: str, now_ms: int, budget: int) -> int:
        done = 0
        async for bucket in self._buckets(archive_id, 0, now_ms + DAY_MS):
            day = bucket.number * BUCKET_MS // DAY_MS
            for part in bucket.parts:
                await self._cassandra.run(schema.REMOVE_PART, archive_id, bucket.number, part)
                await self._cassandra.run(schema.LEAVE_BUCKET, archive_id, day, bucket.number, part)
            done += len(bucket.parts)
            if done >= budget:
                return done
        await self._cassandra.run(schema.LEAVE_DAYS, archive_id)
        await self._cassandra.run(schema.FORGET_DROPPED, archive_id)
        return done + 1
