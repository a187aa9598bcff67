"""What this process gave out and nobody has settled: so that it stays hidden when Redis forgets it.

A delivery is remembered here beside Redis and costs no write. When Redis is lost, what is held still is written into
the rows once, and whatever hides messages next begins with that.
"""

from __future__ import annotations

from collections.abc import Iterable

from cqs.engines.cqs.cache import Item
from cqs.engines.cqs.places import Place

HELD_MAX = 50_000
"""Deliveries remembered by a process, the newest: those beyond may come twice when Redis is lost."""

Slot = tuple[str, Place]


class Held:
    def __init__(self) -> None:
        self._items: dict[Slot, Item] = {}

    def put(self, queue: str, item: Item) -> None:
        slot = (queue, item.place)
        self._items.pop(slot, None)  # the newest are at the end
        self._items[slot] = item
        if len(self._items) > HELD_MAX:
            del self._items[next(iter(self._items))]

    def move(self, queue: str, place: Place, visible_at_ms: int) -> None:
        item = self._items.get((queue, place))
        self.put(queue, Item(place, visible_at_ms) if item is None else item._replace(visible_at_ms=visible_at_ms))

    def forget(self, queue: str, places: Iterable[Place]) -> None:
        for place in places:
            self._items.pop((queue, place), None)

    def queues(self) -> set[str]:
        return {queue for queue, _ in self._items}

    def still(self, queue: str, now_ms: int) -> list[Item]:
        """What of a queue is not visible again by now."""
        return [item for (of, _), item in self._items.items() if of == queue and item.visible_at_ms > now_ms]
