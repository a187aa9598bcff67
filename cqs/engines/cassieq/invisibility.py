"""Moves the invisibility pointer. It waits for no message: those still in a bucket are added to the hidden ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from cqs.engines.cassieq.bucket import CassieqMessageRow, MessageBucket
from cqs.engines.cassieq.hidden import CassieqHiddenMessages
from cqs.engines.cassieq.known_queues import CassieqKnownQueue
from cqs.engines.cassieq.pointers import Pointer, QueuePointers
from cqs.engines.cassieq.rows import CassieqRows

LAG_MAX = 64
"""The most buckets between the invisibility pointer and the reader; each process caches when each of them is due."""
STAY_MS = 2_000
"""A bucket sealed more recently than this is not read: most messages are acknowledged by then."""
BUCKETS_MAX = 100


class Invisibility:
    def __init__(self, rows: CassieqRows, pointers: QueuePointers, hidden: CassieqHiddenMessages) -> None:
        self._rows = rows
        self._pointers = pointers
        self._hidden = hidden
        self.parked = 0

    async def advance(self, known: CassieqKnownQueue, now_ms: int) -> int:
        """Move the pointer past buckets that were sealed long enough ago. Returns how many it passed."""
        begin = known.invisible
        numbers = range(begin, min(known.reader, begin + BUCKETS_MAX))
        passed: list[MessageBucket] = []
        for bucket in await self._rows.buckets(known.key, numbers) if numbers else ():
            lag = known.reader - bucket.number
            if (bucket.sealed_at_ms or 0) + STAY_MS > now_ms and lag <= LAG_MAX:
                break
            passed.append(bucket)
        if not passed:
            return 0
        await self.park(known.key, (row for bucket in passed for row in bucket.live), now_ms)
        await self._remove_done(known.key, [bucket for bucket in passed if bucket.rows and not bucket.live])
        end = passed[-1].number + 1
        await self._pointers.advance(known.key, Pointer.INVISIBILITY, begin, end)
        known.pass_buckets(end)
        return len(passed)

    async def _remove_done(self, key: str, buckets: list[MessageBucket]) -> None:
        """Remove the rows of buckets that repair passed but left because messages were still in them."""
        if buckets:
            finalized = await self._pointers.read(key, Pointer.REPAIR)
            await asyncio.gather(
                *[self._rows.remove_rows(key, bucket.number) for bucket in buckets if bucket.number < finalized]
            )

    async def park(self, key: str, rows: Iterable[CassieqMessageRow], now_ms: int) -> None:
        """Add messages to the hidden ones: they become visible at their due time, or at once."""
        live = list(rows)
        self.parked += len(live)
        await asyncio.gather(*[self._hidden.add(key, row.monoton, max(row.visible_at_ms, now_ms)) for row in live])
