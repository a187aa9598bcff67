"""The deliveries of this process that are not settled, so that their messages stay hidden if Redis loses them.

It is memory beside Redis and costs no write. When Redis is lost, the visibility of these messages is saved in their
rows once, and the next cache starts from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from cqs.engines.cluster.cache_contract import CachedMessage
from cqs.engines.cluster.ids import MessageLocation

UNACKED_MAX = 50_000
"""The newest deliveries that are remembered; messages of older ones may be delivered twice when Redis is lost."""


class UnackedDeliveries:
    def __init__(self) -> None:
        self._queues: dict[str, dict[MessageLocation, CachedMessage]] = {}
        self._count = 0

    def add(self, queue_id: str, item: CachedMessage) -> None:
        items = self._queues.setdefault(queue_id, {})
        self._count += items.pop(item.location, None) is None
        items[item.location] = item  # the newest are at the end
        if self._count > UNACKED_MAX:
            oldest = next(iter(self._queues))
            self.forget(oldest, [next(iter(self._queues[oldest]))])

    def set_visible_at(self, queue_id: str, location: MessageLocation, visible_at_ms: int) -> None:
        item = self._queues.get(queue_id, {}).get(location)
        self.add(
            queue_id,
            CachedMessage(location, visible_at_ms) if item is None else item._replace(visible_at_ms=visible_at_ms),
        )

    def forget(self, queue_id: str, locations: Iterable[MessageLocation]) -> None:
        items = self._queues.get(queue_id)
        if items is not None:
            for location in locations:
                self._count -= items.pop(location, None) is not None
            if not items:
                del self._queues[queue_id]

    def queues(self) -> list[str]:
        return list(self._queues)

    def still_hidden(self, queue_id: str, now_ms: int) -> list[CachedMessage]:
        """The messages of the queue that are not visible yet."""
        return [item for item in self._queues.get(queue_id, {}).values() if item.visible_at_ms > now_ms]
