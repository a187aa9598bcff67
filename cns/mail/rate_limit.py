"""The limit of mails per second: a subscription above it is suspended until it is confirmed again.

Amazon SNS, "Email subscription setup and management": more than ten messages in a second to an `email` or `email-json`
endpoint suspend the subscription. It is then pending confirmation for 48 hours, and is deleted after that.
"""

from __future__ import annotations

from typing import Protocol

import structlog
from msgspec.structs import replace

from cns.delivery.target import Target
from cns.endpoints.outcome import Cause
from cns.limits import PENDING_MS, UPDATE_TRIES_MAX
from cns.notification import Notification
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import SubscriptionState
from cns_common.clock import Clock

log = structlog.get_logger(__name__)


class MailCounts(Protocol):
    """The mails of each second of a subscription, counted over all processes."""

    async def admit_mail(self, subscription: str, second: int, message_id: str, limit: int) -> bool:
        """Whether the mail is one of the first `limit` that were published in this second. A mail that was admitted
        is so at every attempt, and so is one of a second that is long over."""
        ...


class MailRateLimit:
    """Counts messages by the second in which they were published, not sent: no retry, and no backlog after an outage of
    the relay, suspends a subscription."""

    def __init__(self, subscriptions: SubscriptionStore, counts: MailCounts, clock: Clock, mails_a_second: int) -> None:
        """`mails_a_second` 0 stands for no limit."""
        self._subscriptions = subscriptions
        self._counts = counts
        self._clock = clock
        self._mails_a_second = mails_a_second

    async def drop_cause(self, target: Target, notification: Notification) -> Cause | None:
        """Why this mail must not be sent; None if it may be. Suspends the subscription if it is above the limit."""
        limit, second = self._mails_a_second, notification.timestamp_ms // 1000
        if not limit or await self._counts.admit_mail(target.arn, second, notification.id, limit):
            return None
        await self._suspend(target.arn)
        return Cause.MAIL_RATE

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
