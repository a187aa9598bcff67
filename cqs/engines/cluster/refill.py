"""Scans of a queue's rows: to fill the cache when an epoch begins, and to find messages that it lacks.

A fill is made in steps of a few pages, and only some steps run at once in a process, so that a deep queue neither stops
the process nor keeps other queues from being filled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from cns_common.ids import hex_id
from cqs.engines.cluster.cache_contract import FILLED, Cache, CachedMessage
from cqs.engines.cluster.ids import COUNTER_BITS, QueueShard, generation_prefix, start_of
from cqs.engines.cluster.rows import ListedBucket, MessageRows, RowHeader
from cqs.engines.cluster.schema import PAGE_ROWS

RECONCILE_AGE_MS = 5_000
"""A row of this age is in the cache, or its writer could not add it."""
FILLS_MAX = 64
"""The most fills under way in this process. Others wait: a filler that pauses for seconds is taken for dead."""
FILL_STEPS_AT_ONCE = 8
FILL_STEP_PAGES = 5
TAIL_MS = 120_000
"""A process has added to the cache all that it wrote this long before its last message, by its own clock."""


class FillSlots:
    """Limits of the fills that a process has under way, and of those that are in a step."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(FILLS_MAX)
        self.in_step = asyncio.Semaphore(FILL_STEPS_AT_ONCE)


async def listed_buckets_of(rows: MessageRows, shard: QueueShard, generation: int) -> AsyncIterator[ListedBucket]:
    after = generation_prefix(generation)
    while True:
        page = await rows.listed_buckets(shard.queue_id, after)
        for bucket in page:
            if shard.has(bucket.name):
                yield bucket
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].name


async def buckets_of(rows: MessageRows, shard: QueueShard, generation: int) -> AsyncIterator[str]:
    after = generation_prefix(generation)
    while True:
        page = await rows.buckets(shard.queue_id, after)
        for bucket in page:
            if shard.has(bucket):
                yield bucket
        if len(page) < PAGE_ROWS:
            return
        after = page[-1]


async def headers_of(
    rows: MessageRows, queue_id: str, bucket: str, after_seq: int = -1
) -> AsyncIterator[list[RowHeader]]:
    at: int | None = after_seq
    while at is not None:
        page, at = await rows.headers(queue_id, bucket, at)
        yield page


async def has_messages(rows: MessageRows, queue_id: str, bucket: str) -> bool:
    async for page in headers_of(rows, queue_id, bucket):
        if page:
            return True
    return False


def cached_messages(headers: list[RowHeader], now_ms: int | None = None) -> list[CachedMessage]:
    """Without `now_ms`, due as the rows say; with it, as they are due by then. Expired messages are included: only a
    receive knows the queue's current retention."""
    return [
        CachedMessage(
            one.location,
            one.visible_at_ms if now_ms is None else one.due_ms(now_ms),
            one.deliveries,
            one.first_at_ms,
            one.tenant or "",
        )
        for one in headers
    ]


async def fill_cache(
    rows: MessageRows,
    cache: Cache,
    shard: QueueShard,
    generation: int,
    slots: FillSlots,
    stepped: Callable[[], None],
) -> bool:
    """Fill an epoch, if that is needed; `stepped` is called after each step, of this filler or another task's. Returns
    False while another process fills it: call again, since that process may die. The caller holds a slot of
    `slots.begun`."""
    filler = hex_id()
    to_fill = await cache.begin_epoch(shard, generation, filler)
    if to_fill < 0:
        stepped()
        return to_fill == FILLED
    pages = _pages_of(rows, shard, to_fill)
    filled: bool | None = None
    while filled is None:
        async with slots.in_step:
            filled = await _fill_step(cache, shard, filler, pages, rows.now_ms())
        stepped()
    return filled


async def _fill_step(
    cache: Cache, shard: QueueShard, filler: str, pages: AsyncIterator[list[RowHeader]], now_ms: int
) -> bool | None:
    """Add some pages. Returns whether the cache is filled, or None if pages are left."""
    for _ in range(FILL_STEP_PAGES):
        page = await anext(pages, None)
        if page is None:
            await cache.end_fill(shard, filler)
            return True
        if not await cache.fill_page(shard, filler, cached_messages(page, now_ms)):
            return False
    return None


async def _pages_of(rows: MessageRows, shard: QueueShard, generation: int) -> AsyncIterator[list[RowHeader]]:
    async for bucket in buckets_of(rows, shard, generation):
        async for page in headers_of(rows, shard.queue_id, bucket):
            yield page


async def add_missing_since(
    rows: MessageRows, cache: Cache, shard: QueueShard, bucket: str, since_ms: int, now_ms: int
) -> int:
    """Add messages of the bucket to the cache that arrived since then, by the writer's clock, if it lacks them. Returns
    how many it lacked."""
    after_seq = (max(since_ms - start_of(bucket), 0) << COUNTER_BITS) - 1
    added = 0
    async for page in headers_of(rows, shard.queue_id, bucket, after_seq):
        if page:
            added += await cache.add_missing(shard, cached_messages(page, now_ms), now_ms)
    return added


async def add_missing_tail(rows: MessageRows, cache: Cache, shard: QueueShard, buckets: list[str], now_ms: int) -> int:
    """Add the last messages of one writer, whose clock may be wrong, if the cache lacks them: those of `TAIL_MS` before
    its last one."""
    added, newest_ms = 0, None
    for bucket in sorted(buckets, reverse=True):
        last = await rows.last_location(shard.queue_id, bucket)
        if last is None:
            continue
        newest_ms = last.arrived_ms if newest_ms is None else newest_ms
        if last.arrived_ms < newest_ms - TAIL_MS:
            break
        added += await add_missing_since(rows, cache, shard, bucket, newest_ms - TAIL_MS, now_ms)
    return added
