"""How many mails a subscription may be sent: who gets more is asked anew whether it wants them.

Amazon SNS, "Email subscription setup and management": more than ten messages in a second to an `email` or `email-json`
endpoint suspend the subscription, which is pending confirmation for 48 hours, and is deleted then.
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

SUBSCRIPTIONS_REMEMBERED = 10_000

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Second:
    """`message_ids` are those that may be sent, however often they are tried."""

    at_s: int
    message_ids: set[str] = field(default_factory=set)


class MailRate:
    """Counts what was published in a second, not what is sent in it: what waited for a relay that was away, or is
    tried again, suspends nobody. Each process counts what it sends itself."""

    def __init__(self, subscriptions: SubscriptionStore, clock: Clock, mails_a_second: int) -> None:
        """`mails_a_second` of 0: as many as there are."""
        self._subscriptions = subscriptions
        self._clock = clock
        self._mails_a_second = mails_a_second
        self._seconds: BoundedCache[str, _Second] = BoundedCache(SUBSCRIPTIONS_REMEMBERED)

    async def objection(self, target: Target, notification: Notification) -> Cause | None:
        """Why this mail is not sent, or None where it is."""
        if not self._mails_a_second or self._has_room(target.arn, notification):
            return None
        await self._suspend(target.arn)
        return Cause.MAIL_RATE

    def _has_room(self, arn: str, notification: Notification) -> bool:
        at_s = notification.timestamp_ms // 1000
        second = self._seconds.get(arn)
        if second is None or second.at_s < at_s:
            second = _Second(at_s)
            self._seconds.put(arn, second)
        if second.at_s > at_s or notification.id in second.message_ids:
            return True
        if len(second.message_ids) >= self._mails_a_second:
            return False
        second.message_ids.add(notification.id)
        return True

    async def _suspend(self, arn: str) -> None:
        """Where others change the subscription all the time, the next mail does."""
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
