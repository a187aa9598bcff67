"""Counts and pages of a queue while there is no Redis: from what is hidden here, and the rows of all other buckets."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.clock import Clock
from cqs.engines.cluster.cache_contract import DROPPED, Counted, Item
from cqs.engines.cluster.no_redis.visibility import Shelf
from cqs.engines.cluster.refill import buckets_of, items_of, sketches_of
from cqs.engines.cluster.rows import Rows

WALK_REST = 5
"""Between two walks over a queue's rows lies so many times what the first took."""


class _Walk(NamedTuple):
    good_until_ms: int
    items: list[Item]


class Surveys:
    def __init__(self, rows: Rows, clock: Clock, shelves: dict[str, Shelf]) -> None:
        self._rows = rows
        self._clock = clock
        self._shelves = shelves
        self._walks: dict[str, _Walk] = {}

    def forget(self, queue: str) -> None:
        """This process changed what is in its rows."""
        self._walks.pop(queue, None)

    async def counts(self, queue: str, now_ms: int) -> Counted:
        """What others hide is known as of their last word in the rows."""
        shelf, elsewhere = await self._look_at(queue)
        here = shelf.items() if shelf else []
        in_flight = sum(item.deliveries > 0 and item.visible_at_ms > now_ms for item in elsewhere)
        in_flight += shelf.count_in_flight(now_ms) if shelf else 0
        visible = sum(item.visible_at_ms <= now_ms for item in (*here, *elsewhere))
        return Counted(visible, in_flight, len(here) + len(elsewhere) - visible - in_flight)

    async def page(self, queue: str, after: tuple[int, str], n: int) -> list[Item]:
        shelf, elsewhere = await self._look_at(queue)
        items = [*shelf.items(), *elsewhere] if shelf else elsewhere
        behind = [item for item in items if (item.visible_at_ms, item.place.member) > after]
        return sorted(behind, key=lambda item: (item.visible_at_ms, item.place))[:n]

    async def _look_at(self, queue: str) -> tuple[Shelf | None, list[Item]]:
        """The shelf, and what is in no bucket of it."""
        walk = self._walks.get(queue)
        begun_ms = self._clock.wall_ms()
        if walk is None or begun_ms >= walk.good_until_ms:
            items = await self._walk(queue)
            ended_ms = self._clock.wall_ms()
            walk = self._walks[queue] = _Walk(ended_ms + WALK_REST * (ended_ms - begun_ms), items)
        shelf = self._shelves.get(queue)
        buckets = shelf.buckets if shelf else ()
        return shelf, [item for item in walk.items if item.place.bucket not in buckets]

    async def _walk(self, queue: str) -> list[Item]:
        shelf = self._shelves.get(queue)
        generation = shelf.generation if shelf else await self._rows.generation(queue)
        items: list[Item] = []
        if generation is not None and generation != DROPPED:
            async for bucket in buckets_of(self._rows, queue, generation):
                if shelf is None or bucket not in shelf.buckets:
                    async for page in sketches_of(self._rows, queue, bucket):
                        items += items_of(page)
        return items
