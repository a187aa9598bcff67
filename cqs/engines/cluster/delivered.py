"""What this process gave out and nobody has settled: so that it stays hidden when Redis forgets it.

A delivery is remembered here beside Redis and costs no write. When Redis is lost, what is held still is written into
the rows once, and whatever hides messages next begins with that.
"""

from __future__ import annotations

from collections.abc import Iterable

from cqs.engines.cluster.cache_contract import Item
from cqs.engines.cluster.ids import Place

HELD_MAX = 50_000
"""Deliveries remembered by a process, the newest: those beyond may come twice when Redis is lost."""


class Held:
    def __init__(self) -> None:
        self._queues: dict[str, dict[Place, Item]] = {}
        self._count = 0

    def put(self, queue: str, item: Item) -> None:
        items = self._queues.setdefault(queue, {})
        self._count += items.pop(item.place, None) is None
        items[item.place] = item  # the newest are at the end
        if self._count > HELD_MAX:
            oldest = next(iter(self._queues))
            self.forget(oldest, [next(iter(self._queues[oldest]))])

    def move(self, queue: str, place: Place, visible_at_ms: int) -> None:
        item = self._queues.get(queue, {}).get(place)
        self.put(queue, Item(place, visible_at_ms) if item is None else item._replace(visible_at_ms=visible_at_ms))

    def forget(self, queue: str, places: Iterable[Place]) -> None:
        items = self._queues.get(queue)
        if items is not None:
            for place in places:
                self._count -= items.pop(place, None) is not None
            if not items:
                del self._queues[queue]

    def queues(self) -> list[str]:
        return list(self._queues)

    def still(self, queue: str, now_ms: int) -> list[Item]:
        """What of a queue is not visible again by now."""
        return [item for item in self._queues.get(queue, {}).values() if item.visible_at_ms > now_ms]
