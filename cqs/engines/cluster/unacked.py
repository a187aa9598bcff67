"""The unsettled deliveries of this process, so that their messages stay hidden if Redis loses them.

They are kept in memory and cost no write. When Redis is lost, the visibility of these messages is saved in their rows
once, and the next cache starts from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from cqs.engines.cluster.cache_contract import CachedMessage
from cqs.engines.cluster.ids import MessageLocation, QueueShard

UNACKED_MAX = 50_000
"""The newest deliveries that are remembered; messages of older ones may be delivered twice when Redis is lost."""


class UnackedDeliveries:
    def __init__(self) -> None:
        self._shards: dict[QueueShard, dict[MessageLocation, CachedMessage]] = {}
        self._count = 0

    def add(self, shard: QueueShard, item: CachedMessage) -> None:
        items = self._shards.setdefault(shard, {})
        self._count += items.pop(item.location, None) is None
        items[item.location] = item  # the newest are at the end
        if self._count > UNACKED_MAX:
            oldest = next(iter(self._shards))
            self.forget(oldest, [next(iter(self._shards[oldest]))])

    def set_visible_at(self, shard: QueueShard, location: MessageLocation, visible_at_ms: int) -> None:
        item = self._shards.get(shard, {}).get(location)
        self.add(
            shard,
            CachedMessage(location, visible_at_ms) if item is None else item._replace(visible_at_ms=visible_at_ms),
        )

    def forget(self, shard: QueueShard, locations: Iterable[MessageLocation]) -> None:
        items = self._shards.get(shard)
        if items is not None:
            for location in locations:
                self._count -= items.pop(location, None) is not None
            if not items:
                del self._shards[shard]

    def remove(self, shard: QueueShard, location: MessageLocation) -> bool:
        """Forget one message. Returns whether it was remembered."""
        known = location in self._shards.get(shard, {})
        self.forget(shard, [location])
        return known

    def shards(self) -> list[QueueShard]:
        return list(self._shards)

    def still_hidden(self, shard: QueueShard, now_ms: int) -> list[CachedMessage]:
        """The messages of the shard that are not visible yet."""
        return [item for item in self._shards.get(shard, {}).values() if item.visible_at_ms > now_ms]
