"""Counts and peeks without Redis: from the messages hidden in this process, and the rows of all other buckets.

A bucket is scanned again only after a pause, or after this process changed it, and from its first message on: earlier
deleted rows are not read again. A scan keeps the counts and the times of hidden messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cluster.cache_contract import CacheCounts, CachedMessage
from cqs.engines.cluster.ids import COUNTER_BITS, MessageLocation, QueueShard, start_of
from cqs.engines.cluster.no_redis.visibility import LocalVisibility
from cqs.engines.cluster.refill import buckets_of, cached_messages, headers_of
from cqs.engines.cluster.rows import MessageRows

SCAN_REST_FACTOR = 5
"""The pause between two scans of a bucket's rows, as a multiple of the first one's duration."""
SHARDS_MAX = 1_000
LATE_MS_MAX = 60_000
"""After this time no row can appear before existing ones: writes and their retries are over, whatever the clocks of the
processes say."""


class _Hidden(NamedTuple):
    due_ms: int
    delivered: bool


class _Scan(NamedTuple):
    """The counts of one bucket."""

    good_until_ms: int
    visible: int
    hidden: tuple[_Hidden, ...]
    cleared: int
    """The `seq` up to which the bucket has no messages."""


class FallbackCounts:
    def __init__(self, rows: MessageRows, clock: Clock, visibilities: dict[QueueShard, LocalVisibility]) -> None:
        self._rows = rows
        self._clock = clock
        self._visibilities = visibilities
        self._scans: BoundedCache[QueueShard, dict[str, _Scan]] = BoundedCache(SHARDS_MAX)
        self._changes = 0

    def forget(self, shard: QueueShard, locations: Iterable[MessageLocation]) -> None:
        """Have the buckets of these rows scanned again: this process changed them."""
        self._changes += 1
        scans = self._scans.get(shard)
        for bucket in {location.bucket for location in locations} if scans else ():
            if scans and bucket in scans:
                scans[bucket] = scans[bucket]._replace(good_until_ms=0)

    async def counts(self, shard: QueueShard, now_ms: int) -> CacheCounts:
        """Count messages. Those that other processes hide count as last saved in the rows."""
        scans = await self._scan(shard, now_ms)
        visibility = self._visibilities.get(shard)
        claimed = visibility.buckets if visibility else ()
        here = visibility.items() if visibility else []
        elsewhere = [scan for bucket, scan in scans.items() if bucket not in claimed]
        hidden = [one for scan in elsewhere for one in scan.hidden if one.due_ms > now_ms]
        total = len(here) + sum(scan.visible + len(scan.hidden) for scan in elsewhere)
        in_flight = sum(one.delivered for one in hidden) + (visibility.count_in_flight(now_ms) if visibility else 0)
        visible = total - len(hidden) - sum(item.visible_at_ms > now_ms for item in here)
        return CacheCounts(visible, in_flight, total - visible - in_flight)

    async def page(self, shard: QueueShard, after: tuple[int, str], n: int) -> list[CachedMessage]:
        """Reads all rows of other buckets and keeps those of the page."""
        visibility = self._visibilities.get(shard)
        items = visibility.items() if visibility else []
        page = _soonest(items, after, n)
        async for bucket in self._buckets(shard):
            visibility = self._visibilities.get(shard)
            if visibility is None or bucket not in visibility.buckets:
                async for headers in headers_of(self._rows, shard.queue_id, bucket, self._cleared(shard, bucket)):
                    page = _soonest([*page, *cached_messages(headers)], after, n)
        return page

    async def _buckets(self, shard: QueueShard) -> AsyncIterator[str]:
        visibility = self._visibilities.get(shard)
        generation = visibility.generation if visibility else await self._rows.generation(shard.queue_id)
        if generation is not None and generation != DROPPED:
            async for bucket in buckets_of(self._rows, shard, generation):
                yield bucket

    def _cleared(self, shard: QueueShard, bucket: str) -> int:
        scans = self._scans.get(shard)
        return scans[bucket].cleared if scans and bucket in scans else -1

    async def _scan(self, shard: QueueShard, now_ms: int) -> dict[str, _Scan]:
        """Return scans of the buckets that this process has not claimed. A scan that is too old is made again. If this
        fails, the scans made are kept for the next call."""
        before = self._scans.get(shard) or {}
        self._scans.put(shard, before)
        scans: dict[str, _Scan] = {}
        async for bucket in self._buckets(shard):
            visibility = self._visibilities.get(shard)
            if visibility is not None and bucket in visibility.buckets:
                continue
            scan = before.get(bucket)
            if scan is None or self._clock.monotonic_ms() >= scan.good_until_ms:
                scan = before[bucket] = await self._scan_bucket(shard, bucket, scan.cleared if scan else -1, now_ms)
            scans[bucket] = scan
        self._scans.put(shard, scans)
        return scans

    async def _scan_bucket(self, shard: QueueShard, bucket: str, cleared: int, now_ms: int) -> _Scan:
        begun_ms, changes = self._clock.monotonic_ms(), self._changes
        settled = (now_ms - LATE_MS_MAX - start_of(bucket)) << COUNTER_BITS
        visible, hidden, first = 0, list[_Hidden](), None
        async for page in headers_of(self._rows, shard.queue_id, bucket, cleared):
            if page and first is None:
                first = page[0].location.seq
            later = [_Hidden(one.visible_at_ms, one.deliveries > 0) for one in page if one.due_ms(now_ms) > now_ms]
            visible += len(page) - len(later)
            hidden += later
        ended_ms = self._clock.monotonic_ms()
        up_to = settled if first is None else min(first - 1, settled)
        is_current = self._changes == changes
        return _Scan(
            good_until_ms=ended_ms + SCAN_REST_FACTOR * (ended_ms - begun_ms) if is_current else 0,
            visible=visible,
            hidden=tuple(hidden),
            cleared=max(cleared, up_to),
        )


def _soonest(items: Iterable[CachedMessage], after: tuple[int, str], n: int) -> list[CachedMessage]:
    behind = [item for item in items if (item.visible_at_ms, item.location.member) > after]
    return sorted(behind, key=lambda item: (item.visible_at_ms, item.location))[:n]
