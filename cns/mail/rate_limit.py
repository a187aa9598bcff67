"""The limit of mails per second: a subscription above it is suspended until it is confirmed again.

Amazon SNS, "Email subscription setup and management": more than ten messages in a second to an `email` or `email-json`
endpoint suspend the subscription. It is then pending confirmation for 48 hours, and is deleted after that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog
from msgspec.structs import replace

from cns.delivery.target import Target
from cns.endpoints.outcome import Cause
from cns.limits import PENDING_MS, UPDATE_TRIES_MAX
from cns.notification import Notification
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import SubscriptionState
from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock

SUBSCRIPTIONS_CACHED_MAX = 10_000

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _SecondCount:
    """`message_ids` are within the limit: each may be sent, at every attempt."""

    at_s: int
    message_ids: set[str] = field(default_factory=set)


class MailRateLimit:
    """Counts messages by the second in which they were published, not sent: no retry, and no backlog after an outage of
    the relay, suspends a subscription. Each process counts only the mails that it sends."""

    def __init__(self, subscriptions: SubscriptionStore, clock: Clock, mails_a_second: int) -> None:
        """`mails_a_second` 0 stands for no limit."""
        self._subscriptions = subscriptions
        self._clock = clock
        self._mails_a_second = mails_a_second
        self._seconds: BoundedCache[str, _SecondCount] = BoundedCache(SUBSCRIPTIONS_CACHED_MAX)

    async def drop_cause(self, target: Target, notification: Notification) -> Cause | None:
        """Why this mail must not be sent; None if it may be. Suspends the subscription if it is above the limit."""
        if not self._mails_a_second or self._is_within_limit(target.arn, notification):
            return None
        await self._suspend(target.arn)
        return Cause.MAIL_RATE

    def _is_within_limit(self, arn: str, notification: Notification) -> bool:
        at_s = notification.timestamp_ms // 1000
        second = self._seconds.get(arn)
        if second is None or second.at_s < at_s:
            second = _SecondCount(at_s)
            self._seconds.put(arn, second)
        if second.at_s > at_s or notification.id in second.message_ids:
            return True
        if len(second.message_ids) >= self._mails_a_second:
            return False
        second.message_ids.add(notification.id)
        return True

    async def _suspend(self, arn: str) -> None:
        """After UPDATE_TRIES_MAX concurrent changes it gives up: the next mail above the limit tries again."""
        for _ in range(UPDATE_TRIES_MAX):
            found = await self._subscriptions.get([arn])
            if not found or found[0].state is not SubscriptionState.CONFIRMED:
                return
            version = found[0].version
            expires_ms = self._clock.now_ms() + PENDING_MS
            pending = replace(found[0], state=SubscriptionState.PENDING, expires_ms=expires_ms, version=version + 1)
            if await self._subscriptions.replace(pending, version, None):
                log.warning("subscription.suspended", subscription=arn, mails_a_second=self._mails_a_second)
                return
