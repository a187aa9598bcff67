"""Rates in the memory of the store host, which all workers of the machine ask."""

from __future__ import annotations

from cns_backend.stores.contract import LATE_MAIL_S, RateStore
from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.token_bucket import TokenBucket, TokenGrant

SUBSCRIPTIONS_MAX = 20_000
"""The limit of subscriptions whose throttle or mail counts are kept."""


class EmbeddedRateStore(RateStore):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: BoundedCache[str, TokenBucket] = BoundedCache(SUBSCRIPTIONS_MAX)
        self._mails: BoundedCache[str, dict[int, set[str]]] = BoundedCache(SUBSCRIPTIONS_MAX)

    async def take_tokens(self, bucket: str, per_second: int, wanted: int) -> TokenGrant:
        now_s = self._clock.now_ms() / 1000
        found = self._buckets.get(bucket)
        if found is None or found.per_second != per_second:
            found = TokenBucket(per_second, now_s)
            self._buckets.put(bucket, found)
        return found.take(now_s, wanted)

    async def admit_mail(self, subscription: str, second: int, message_id: str, limit: int) -> bool:
        seconds = self._mails.get(subscription)
        if seconds is None:
            seconds = {}
            self._mails.put(subscription, seconds)
        newest = max(seconds, default=second)
        if second <= newest - LATE_MAIL_S:
            return True
        for over in [old for old in seconds if old <= second - LATE_MAIL_S]:
            del seconds[over]
        admitted = seconds.setdefault(second, set())
        if message_id in admitted:
            return True
        if len(admitted) >= limit:
            return False
        admitted.add(message_id)
        return True
