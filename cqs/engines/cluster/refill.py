"""Scans of a queue's rows: to fill the cache when an epoch begins, and to find messages that it lacks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from cns_common.ids import hex_id
from cqs.engines.cluster.cache_contract import FILLED, Cache, CachedMessage
from cqs.engines.cluster.ids import generation_prefix, start_of
from cqs.engines.cluster.rows import MessageRows, RowHeader
from cqs.engines.cluster.schema import BUCKET_SPAN_MS

RECONCILE_AGE_MS = 5_000
"""A row of this age is in the cache, or its writer could not add it."""


def is_closed(bucket: str, now_ms: int) -> bool:
    """Whether no process writes into the bucket any more."""
    return start_of(bucket) + BUCKET_SPAN_MS + 2 * RECONCILE_AGE_MS < now_ms


async def buckets_of(rows: MessageRows, queue_id: str, generation: int) -> AsyncIterator[str]:
    after = generation_prefix(generation)
    while page := await rows.buckets(queue_id, after):
        for bucket in page:
            yield bucket
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


def cached_messages(headers: list[RowHeader]) -> list[CachedMessage]:
    """Expired messages are included: only a receive knows the queue's current retention."""
    return [CachedMessage(one.location, one.visible_at_ms, one.deliveries, one.first_at_ms) for one in headers]


async def fill_cache(rows: MessageRows, cache: Cache, queue_id: str, generation: int) -> bool:
    """Fill an epoch, if that is needed. Returns False while another process does: call again, since that one may
    die."""
    filler = hex_id()
    to_fill = await cache.begin_epoch(queue_id, generation, filler)
    if to_fill < 0:
        return to_fill == FILLED
    async for bucket in buckets_of(rows, queue_id, to_fill):
        async for page in headers_of(rows, queue_id, bucket):
            if not await cache.fill_page(queue_id, filler, cached_messages(page)):
                return False
    await cache.end_fill(queue_id, filler)
    return True


@dataclass(slots=True)
class ReconcileProgress:
    """How far a queue's buckets have been compared with the cache."""

    generation: int
    at: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Buckets that were compared to their end after their last row was written."""


async def reconcile(rows: MessageRows, cache: Cache, queue_id: str, progress: ReconcileProgress, now_ms: int) -> int:
    """Add rows that are old enough and new since the last call to the cache, if it lacks them. Returns how many it
    lacked."""
    added = 0
    buckets = [bucket async for bucket in buckets_of(rows, queue_id, progress.generation)]
    for bucket in buckets:
        if bucket in progress.ended:
            continue
        closed = is_closed(bucket, now_ms)
        async for page in headers_of(rows, queue_id, bucket, progress.at.get(bucket, -1)):
            settled = [one for one in page if one.location.arrived_ms <= now_ms - RECONCILE_AGE_MS]
            if settled:
                added += await cache.add_missing(queue_id, cached_messages(settled), now_ms)
            progress.at[bucket] = max(progress.at.get(bucket, -1), *[one.location.seq for one in settled], -1)
        if closed:
            progress.ended.add(bucket)
    progress.ended &= set(buckets)
    progress.at = {bucket: progress.at[bucket] for bucket in buckets if bucket in progress.at}
    return added
