"""An index of unconfirmed subscriptions by expiry time, one partition per day.

An entry is written before its record. An entry that does not agree with its record is outdated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from cns.stores.cassandra import schema
from cns.subscriptions.subscription import Subscription
from cns_common.cassandra.session import Cassandra
from cns_common.durations import DAY_MS

DAYS_AT_ONCE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryEntry:
    id: str
    expires_ms: int


class ExpiryIndex:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def enter(self, subscription: Subscription) -> None:
        """Write the day first: entries of a day that is not listed would not be found."""
        if subscription.expires_ms:
            day = subscription.expires_ms // DAY_MS
            await self._cassandra.run(schema.ENTER_DAY, day)
            await self._cassandra.run(schema.ENTER_EXPIRY, day, subscription.expires_ms, subscription.id)

    async def leave(self, entry: ExpiryEntry) -> None:
        await self._cassandra.run(schema.LEAVE_EXPIRY, entry.expires_ms // DAY_MS, entry.expires_ms, entry.id)

    async def due(self, now_ms: int, n: int) -> AsyncIterator[ExpiryEntry]:
        """Up to `n` expired entries. A past day without further entries is removed from the list of days."""
        today = now_ms // DAY_MS
        for (day,) in await self._cassandra.run(schema.DAYS, today, DAYS_AT_ONCE):
            rows = await self._cassandra.run(schema.EXPIRED, day, now_ms, n)
            for expires_ms, subscription_id in rows:
                yield ExpiryEntry(id=subscription_id, expires_ms=expires_ms)
            n -= len(rows)
            if n <= 0:
                return
            if day < today:
                await self._cassandra.run(schema.LEAVE_DAY, day)
