"""Archives of topics in Cassandra: a partition holds a minute of one archive, or a part of it.

A writer begins another part of the minute when it has put `PART_BYTES` into the last, so no partition grows beyond what
all writers put into one. Which partitions there are is written down before they have rows: a day of the archive lists
its minutes, the archive its days. All rows end by their time to live.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import msgspec

from cns.archives.model import SKEW_MS_MAX, ArchivedMessage
from cns.notification import Notification
from cns.stores.cassandra import archive_schema as schema
from cns_common.bounded_cache import BoundedCache
from cns_common.cassandra.session import Cassandra

BUCKET_MS = SKEW_MS_MAX
"""What is archived out of the order of time is in the bucket after its own, or before it."""
DAY_MS = 86_400_000
PART_BYTES = 16 * 1024 * 1024
BUCKETS_READ = 1_000
DAYS_READ = 400
EXPIRY_MARGIN_S = 86_400
"""How much longer than a message its index entries are kept; clocks of tests run ahead of Cassandra's."""
OPEN_PARTS_REMEMBERED = 10_000
DROPPED_AT_ONCE = 10

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notification).decode


class Bucket(NamedTuple):
    """A minute of an archive, and which parts it has."""

    number: int
    parts: tuple[int, ...]


class OpenPart(NamedTuple):
    """The part of a minute that this process fills, and how long its index entries live."""

    part: int
    size_bytes: int
    life_s: int


class CassandraArchiveStore:
    """See `cns.stores.contract.ArchiveStore`."""

    def __init__(self, cassandra: Cassandra, *, part_bytes: int = PART_BYTES, buckets_read: int = BUCKETS_READ) -> None:
        self._cassandra = cassandra
        self._part_bytes = part_bytes
        self._buckets_read = buckets_read
        self._filling: BoundedCache[tuple[str, int], OpenPart] = BoundedCache(OPEN_PARTS_REMEMBERED)

    async def append(self, archive_id: str, messages: Sequence[ArchivedMessage]) -> None:
        await asyncio.gather(*[self._append(archive_id, each) for each in messages])

    async def _append(self, archive_id: str, each: ArchivedMessage) -> None:
        bucket = each.at_ms // BUCKET_MS
        record = _encode(each.notification)
        life_s = max(each.expires_ms - each.at_ms, 0) // 1000 + EXPIRY_MARGIN_S
        part = await self._part(archive_id, bucket, len(record), life_s + EXPIRY_MARGIN_S)
        row = (archive_id, bucket, part, each.key, each.at_ms, each.expires_ms, record, life_s)
        await self._cassandra.run(schema.APPEND, *row)

    async def _part(self, archive_id: str, bucket: int, size_bytes: int, life_s: int) -> int:
        """Where to write so many bytes, entered in the index for at least so long."""
        place = (archive_id, bucket)
        filling = self._filling.get(place)
        full = filling is not None and filling.size_bytes + size_bytes > self._part_bytes
        if filling is not None and not full and filling.life_s >= life_s:
            self._filling.put(place, filling._replace(size_bytes=filling.size_bytes + size_bytes))
            return filling.part
        part = 0 if filling is None else filling.part + full
        day = bucket * BUCKET_MS // DAY_MS
        await self._cassandra.run(schema.ENTER_DAY, archive_id, day, life_s)
        await self._cassandra.run(schema.ENTER_BUCKET, archive_id, day, bucket, part, life_s)
        self._filling.put(place, OpenPart(part, size_bytes, life_s))
        return part

    async def page(self, archive_id: str, from_ms: int, until_ms: int, after: str, n: int) -> list[ArchivedMessage]:
        """What the next bucket holds may precede something of this one, what the one behind it holds may not."""
        found: dict[str, ArchivedMessage] = {}
        last = None
        async for bucket in self._buckets(archive_id, from_ms, until_ms):
            if last is not None and bucket.number > last:
                break
            for each in await self._read(archive_id, bucket, (from_ms, until_ms), after, n):
                found[each.key] = each  # the same in two parts, where a writer began anew and repeated it
            if len(found) >= n and last is None:
                last = bucket.number + 1
        return [found[key] for key in sorted(found)[:n]]

    async def _buckets(self, archive_id: str, from_ms: int, until_ms: int) -> AsyncIterator[Bucket]:
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
                    yield Bucket(number, tuple(some))
                if len(rows) < self._buckets_read:
                    break
                rows = await self._cassandra.run(
                    schema.MORE_BUCKETS, archive_id, day, *rows[-1], last, self._buckets_read
                )

    async def _read(
        self, archive_id: str, bucket: Bucket, window: tuple[int, int], after: str, n: int
    ) -> list[ArchivedMessage]:
        """The first `n` of each part at least, less what lies outside the window."""
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

    # -- forgetting ---------------------------------------------------------------------------------------------------

    async def drop(self, archive_id: str) -> None:
        await self._cassandra.run(schema.MARK_DROPPED, archive_id)

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Those of dropped archives, a partition counting as one; what is too old ends by its time to live."""
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
