"""Decides when a process proposes another number of shards of a queue than the layout has.

Processes read a queue's attributes through caches, so one may still see an old number. A process proposes a
number at once when it sees the attribute change, or reads it for the first time. It proposes any other difference only
after that has lasted longer than an attribute is cached.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from cns_common.bounded_cache import BoundedCache
from cqs.engines.cluster.servers.layout import Layout

QUEUES_MAX = 20_000
SHARDED_MAX = 200
"""Queues with an entry in the layout, which every process reads all the time."""
DIFFERENCE_MS = 90_000
"""Longer than attributes are cached."""

log = structlog.get_logger(__name__)


class ShardCounts:
    def __init__(self, layout: Callable[[], Layout]) -> None:
        self._layout = layout
        self._seen: BoundedCache[str, tuple[int, int]] = BoundedCache(QUEUES_MAX)
        self._wanted: dict[str, int] = {}

    def note(self, queue_id: str, count: int, now_ms: int) -> None:
        """Record the number of shards that a call read from the queue's attributes."""
        known = self._layout().text.shards.get(queue_id)
        now = 1 if known is None else known.count
        seen = self._seen.get(queue_id)
        if count == now:
            if known is not None or seen is not None:
                self._seen.put(queue_id, (count, now_ms))
            self._wanted.pop(queue_id, None)
            return
        if seen is None or seen[0] != count:
            changed = seen is not None or known is None
            self._seen.put(queue_id, (count, now_ms))
        else:
            changed = now_ms - seen[1] >= DIFFERENCE_MS
        if changed:
            self._wanted[queue_id] = count

    def forget(self, queue_id: str) -> None:
        """Propose removal of the dropped queue's entry."""
        self._wanted.pop(queue_id, None)
        if queue_id in self._layout().text.shards:
            self._wanted[queue_id] = 0

    def put_back(self, wanted: dict[str, int]) -> None:
        """Restore numbers whose proposal failed, except where a newer one was recorded since."""
        self._wanted = wanted | self._wanted

    def take_wanted(self) -> dict[str, int]:
        """The numbers to propose, by queue; 0 for none. Each is taken once."""
        wanted, self._wanted = self._wanted, {}
        shards = self._layout().text.shards
        room = SHARDED_MAX - len(shards)
        taken: dict[str, int] = {}
        for queue_id, count in wanted.items():
            if queue_id in shards or room > 0:
                taken[queue_id] = count
                room -= queue_id not in shards
            else:
                log.warning("redis_layout.shards_refused", queue=queue_id, queues=SHARDED_MAX)
        return taken
