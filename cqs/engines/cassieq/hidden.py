"""The messages that were still hidden when the invisibility pointer passed their bucket, by due time.

In the original the pointer waits for them, so one long lease delays all later messages that return. Here it moves on
and adds to this table what is still hidden; most messages are acknowledged before that. An entry may be outdated: the
row is right. A receive that finds such an entry adds one with the row's time, then removes it."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.bounded_cache import BoundedCache
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.cassieq import schema

NONCE_DIGITS = 12
PAGE = 100
QUEUES_MAX = 20_000
REMOVED_MIN = 100
UNDER_WAY_MS = 600_000
"""Far longer than a process may be stopped between taking a write's timestamp and sending it."""


class HiddenEntry(NamedTuple):
    due_ms: int
    monoton: int
    nonce: str


BEGIN = HiddenEntry(-1, -1, "")


class CassieqHiddenMessages:
    def __init__(self, cassandra: Cassandra, clock: Clock) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._removed: BoundedCache[str, int] = BoundedCache(QUEUES_MAX)
        """By queue: entries that this process removed since `forget_removed`."""

    async def add(self, key: str, monoton: int, due_ms: int) -> None:
        await self._cassandra.run(schema.ADD_HIDDEN, key, due_ms, monoton, hex_id()[:NONCE_DIGITS])

    async def page(self, key: str, after: HiddenEntry, n: int = PAGE) -> list[HiddenEntry]:
        """Up to `n` entries, soonest due first."""
        return [HiddenEntry(*row) for row in await self._cassandra.run(schema.LIST_HIDDEN, key, *after, n)]

    async def remove(self, key: str, entry: HiddenEntry) -> None:
        await self._cassandra.run(schema.REMOVE_HIDDEN, key, *entry)
        self._removed.put(key, (self._removed.get(key) or 0) + 1)

    async def forget_removed(self, key: str, first_ms: int) -> None:
        """Replace the tombstones before `first_ms` by one delete: a read of all entries found none there. An entry that
        is just being written is not deleted, unless its timestamp is `UNDER_WAY_MS` old."""
        if (self._removed.get(key) or 0) >= REMOVED_MIN:
            self._removed.forget(key)
            until_us = (self._clock.wall_ms() - UNDER_WAY_MS) * 1_000
            await self._cassandra.run(schema.FORGET_REMOVED_HIDDEN, until_us, key, first_ms)

    async def clear(self, key: str) -> None:
        """Remove the entries of an earlier generation."""
        await self._cassandra.run(schema.CLEAR_HIDDEN, key)
