"""Counts and peeks without Redis: from the messages hidden in this process, and the rows of all other buckets."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.clock import Clock
from cqs.engines.cluster.cache_contract import DROPPED, CacheCounts, CachedMessage
from cqs.engines.cluster.no_redis.visibility import LocalVisibility
from cqs.engines.cluster.refill import buckets_of, cached_messages, headers_of
from cqs.engines.cluster.rows import MessageRows

SCAN_REST_FACTOR = 5
"""The pause between two scans of a queue's rows, as a multiple of the first one's duration."""


class _Scan(NamedTuple):
    good_until_ms: int
    items: list[CachedMessage]


class FallbackCounts:
    def __init__(self, rows: MessageRows, clock: Clock, visibilities: dict[str, LocalVisibility]) -> None:
        self._rows = rows
        self._clock = clock
        self._shelves = visibilities
        self._scans: dict[str, _Scan] = {}

    def forget(self, queue_id: str) -> None:
        """Forget the last scan: this process changed the queue's rows."""
        self._scans.pop(queue_id, None)

    async def counts(self, queue_id: str, now_ms: int) -> CacheCounts:
        """Counts messages that other processes hide as these processes last saved them in the rows."""
        visibility, elsewhere = await self._scan_queue(queue_id)
        here = visibility.items() if visibility else []
        in_flight = sum(item.deliveries > 0 and item.visible_at_ms > now_ms for item in elsewhere)
        in_flight += visibility.count_in_flight(now_ms) if visibility else 0
        visible = sum(item.visible_at_ms <= now_ms for item in (*here, *elsewhere))
        return CacheCounts(visible, in_flight, len(here) + len(elsewhere) - visible - in_flight)

    async def page(self, queue_id: str, after: tuple[int, str], n: int) -> list[CachedMessage]:
        visibility, elsewhere = await self._scan_queue(queue_id)
        items = [*visibility.items(), *elsewhere] if visibility else elsewhere
        behind = [item for item in items if (item.visible_at_ms, item.location.member) > after]
        return sorted(behind, key=lambda item: (item.visible_at_ms, item.location))[:n]

    async def _scan_queue(self, queue_id: str) -> tuple[LocalVisibility | None, list[CachedMessage]]:
        """The queue's visibility in this process, and the messages of all other buckets."""
        scan = self._scans.get(queue_id)
        begun_ms = self._clock.wall_ms()
        if scan is None or begun_ms >= scan.good_until_ms:
            items = await self._scan(queue_id)
            ended_ms = self._clock.wall_ms()
            scan = self._scans[queue_id] = _Scan(ended_ms + SCAN_REST_FACTOR * (ended_ms - begun_ms), items)
        visibility = self._shelves.get(queue_id)
        buckets = visibility.buckets if visibility else ()
        return visibility, [item for item in scan.items if item.location.bucket not in buckets]

    async def _scan(self, queue_id: str) -> list[CachedMessage]:
        visibility = self._shelves.get(queue_id)
        generation = visibility.generation if visibility else await self._rows.generation(queue_id)
        items: list[CachedMessage] = []
        if generation is not None and generation != DROPPED:
            async for bucket in buckets_of(self._rows, queue_id, generation):
                if visibility is None or bucket not in visibility.buckets:
                    async for page in headers_of(self._rows, queue_id, bucket):
                        items += cached_messages(page)
        return items
