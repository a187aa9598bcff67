"""A subscription with more mails per second than SNS sends is suspended until it is confirmed again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cns.delivery.target import Target, TargetCache
from cns.endpoints.outcome import Cause
from cns.limits import PENDING_MS
from cns.mail.rate_limit import MailRateLimit
from cns.notification import Notification
from cns.subscriptions.subscription import ConfirmationToken, Subscription
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from tests.integration.sns.cns_support import Rig, unsigned

SECOND_MS = 1_700_000_000_000


class MailSubscription:
    """A confirmed mail subscription, and messages for it."""

    def __init__(self, rig: Rig, topic: str, arn: str) -> None:
        self.topic = topic
        self.arn = arn
        self._rig = rig
        self._targets = TargetCache(rig.topics, rig.subscriptions)
        self.rate = MailRateLimit(rig.subscriptions, EmbeddedRateStore(rig.clock), rig.clock, 10)

    @classmethod
    async def confirmed(cls, rig: Rig, address: str = "reader@example.com") -> MailSubscription:
        topic = await rig.topic()
        arn = await rig.subscribe(topic, "email", address)
        mail = cls(rig, topic, arn)
        await mail.confirm()
        return mail

    async def confirm(self) -> None:
        """Confirm with the token of the last confirmation mail."""
        token = self._rig.confirmation().token
        confirmed = await self._rig.by(unsigned(), "ConfirmSubscription", TopicArn=self.topic, Token=token)
        assert confirmed == {"SubscriptionArn": self.arn}

    async def target(self) -> Target:
        (target,) = await self._targets.find([self.arn])
        return target

    async def drop_causes(self, n: int, at_ms: int = SECOND_MS, prefix: str = "") -> list[Cause | None]:
        """The drop causes of `n` mails published at `at_ms`; None for delivered ones."""
        target = await self.target()
        return [await self.rate.drop_cause(target, self._mail(f"{prefix}{number}", at_ms)) for number in range(n)]

    async def pending(self) -> bool:
        return (await self._rig.attributes(self.arn))["PendingConfirmation"] == "true"

    def _mail(self, message_id: str, at_ms: int) -> Notification:
        return Notification(id=message_id, topic_arn=self.topic, timestamp_ms=at_ms, texts={"default": "m"})


@pytest.mark.spec("mail.rate")
async def test_the_eleventh_mail_of_a_second_suspends_the_subscription(rig: Rig) -> None:
    mail = await MailSubscription.confirmed(rig)
    assert await mail.drop_causes(10) == [None] * 10
    assert await mail.drop_causes(10, SECOND_MS + 1000, "next ") == [None] * 10
    assert not await mail.pending()
    assert await mail.drop_causes(3, SECOND_MS + 1999, "more ") == [Cause.MAIL_RATE] * 3
    assert await mail.pending()
    assert not (await mail.target()).confirmed
    rig.clock.advance(PENDING_MS - 60_000)
    await rig.subscriptions.sweep(rig.clock.now_ms(), 100)
    assert await mail.pending()
    rig.clock.advance(120_000)
    await rig.subscriptions.sweep(rig.clock.now_ms(), 100)
    assert await rig.subscriptions.get([mail.arn]) == []


async def test_a_reader_who_is_asked_again_may_confirm_again(rig: Rig) -> None:
    mail = await MailSubscription.confirmed(rig)
    await mail.drop_causes(11)
    assert await rig.subscribe(mail.topic, "email", "reader@example.com") == mail.arn
    await mail.confirm()
    assert (await mail.target()).confirmed
    assert await mail.drop_causes(10, SECOND_MS + 1000, "after ") == [None] * 10


async def test_retried_and_late_mails_do_not_suspend(rig: Rig) -> None:
    mail = await MailSubscription.confirmed(rig)
    for attempt in range(3):
        assert await mail.drop_causes(10) == [None] * 10, attempt
    assert await mail.drop_causes(1, SECOND_MS + 1000, "later ") == [None]
    assert await mail.drop_causes(10) == [None] * 10
    assert await mail.drop_causes(11, SECOND_MS - 5000, "of a relay that was away ") == [None] * 11
    assert not await mail.pending()


async def test_each_subscription_is_counted_alone(rig: Rig) -> None:
    one, other = await MailSubscription.confirmed(rig), await MailSubscription.confirmed(rig, "other@example.com")
    other.rate = one.rate
    assert await one.drop_causes(10) + await other.drop_causes(10) == [None] * 20


async def test_the_limit_can_be_switched_off(rig: Rig) -> None:
    mail = await MailSubscription.confirmed(rig)
    mail.rate = MailRateLimit(rig.subscriptions, EmbeddedRateStore(rig.clock), rig.clock, 0)
    assert await mail.drop_causes(50) == [None] * 50


async def test_a_change_of_the_subscription_meanwhile_is_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = await MailSubscription.confirmed(rig)
    replace_stored = rig.subscriptions.replace
    changes: list[Any] = [{"RawMessageDelivery": "false"}]

    async def replace_after_a_change(
        subscription: Subscription, expected_version: int, token: ConfirmationToken | None
    ) -> bool:
        if changes:
            (current,) = await rig.subscriptions.get([mail.arn])
            changed = replace(current, attributes=changes.pop(), version=current.version + 1)
            assert await replace_stored(changed, current.version, None)
        return await replace_stored(subscription, expected_version, token)

    monkeypatch.setattr(rig.subscriptions, "replace", replace_after_a_change)
    await mail.drop_causes(11)
    (stored,) = await rig.subscriptions.get([mail.arn])
    assert stored.attributes == {"RawMessageDelivery": "false"}
    assert await mail.pending()
