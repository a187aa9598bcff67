"""Walks over a queue's rows that bring them into the cache: to fill it when it begins, and to find what it lacks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from cns_common.ids import hex_id
from cqs.engines.cluster.cache_contract import FILLED, Cache, Item
from cqs.engines.cluster.ids import generation_prefix, start_of
from cqs.engines.cluster.rows import Rows, Sketch
from cqs.engines.cluster.schema import BUCKET_SPAN_MS

RECONCILE_AGE_MS = 5_000
"""A row this old is in the cache, or whoever wrote it could not tell the cache."""


def is_closed(bucket: str, now_ms: int) -> bool:
    """Nobody writes into it any more."""
    return start_of(bucket) + BUCKET_SPAN_MS + 2 * RECONCILE_AGE_MS < now_ms


async def buckets_of(rows: Rows, queue: str, generation: int) -> AsyncIterator[str]:
    after = generation_prefix(generation)
    while page := await rows.buckets(queue, after):
        for bucket in page:
            yield bucket
        after = page[-1]


async def sketches_of(rows: Rows, queue: str, bucket: str, after_seq: int = -1) -> AsyncIterator[list[Sketch]]:
    at: int | None = after_seq
    while at is not None:
        page, at = await rows.sketches(queue, bucket, at)
        yield page


async def has_messages(rows: Rows, queue: str, bucket: str) -> bool:
    async for page in sketches_of(rows, queue, bucket):
        if page:
            return True
    return False


def items_of(sketches: list[Sketch]) -> list[Item]:
    """Those past their retention, too: only a receive knows what that is by then."""
    return [Item(one.place, one.visible_at_ms, one.deliveries, one.first_at_ms) for one in sketches]


async def fill(rows: Rows, cache: Cache, queue: str, generation: int) -> bool:
    """Fill an epoch, if that is to be done. False while another does: it may die over it."""
    filler = hex_id()
    to_fill = await cache.begin(queue, generation, filler)
    if to_fill < 0:
        return to_fill == FILLED
    async for bucket in buckets_of(rows, queue, to_fill):
        async for page in sketches_of(rows, queue, bucket):
            if not await cache.fill(queue, filler, items_of(page)):
                return False
    await cache.filled(queue, filler)
    return True


@dataclass(slots=True)
class Watch:
    """How far a queue's buckets have been compared with the cache."""

    generation: int
    at: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Buckets that were compared to their end after their last row was written."""


async def reconcile(rows: Rows, cache: Cache, queue: str, watch: Watch, now_ms: int) -> int:
    """Add what the cache lacks of the rows that are old enough and new since the last walk; returns how many."""
    added = 0
    buckets = [bucket async for bucket in buckets_of(rows, queue, watch.generation)]
    for bucket in buckets:
        if bucket in watch.ended:
            continue
        closed = is_closed(bucket, now_ms)
        async for page in sketches_of(rows, queue, bucket, watch.at.get(bucket, -1)):
            settled = [one for one in page if one.place.arrived_ms <= now_ms - RECONCILE_AGE_MS]
            if settled:
                added += await cache.add_missing(queue, items_of(settled), now_ms)
            watch.at[bucket] = max(watch.at.get(bucket, -1), *[one.place.seq for one in settled], -1)
        if closed:
            watch.ended.add(bucket)
    watch.ended &= set(buckets)
    watch.at = {bucket: watch.at[bucket] for bucket in buckets if bucket in watch.at}
    return added
