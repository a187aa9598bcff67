"""A subscription as its deliveries see it: endpoint, terms, dead-letter queue; kept until it changes."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from cns.delivery_policy import delivery_terms
from cns.model import Notification
from cns.retry_policy import QUEUE_POLICY, RetryPolicy
from cns.stores.contract import SubscriptionStore, TopicStore
from cns.subscription import HTTP_PROTOCOLS, State, Subscription
from cns.topic import Topic
from common.bounded import Bounded

TARGETS_REMEMBERED = 50_000
TOPICS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`retry` is AWS's fixed policy for queues, the effective delivery policy for HTTP endpoints."""

    arn: str
    protocol: str
    endpoint: str
    confirmed: bool
    raw: bool
    retry: RetryPolicy
    content_type: str
    dead_letter_arn: str
    signature_version: str

    def queue_attributes(self, notification: Notification) -> dict[str, dict[str, str | bytes]]:
        """The notification's attributes as SendMessage takes them, for raw delivery to a queue."""
        return {name: _value(data_type, text) for name, (data_type, text) in notification.attributes.items()}


def target_of(subscription: Subscription, topic: Topic | None) -> Target:
    attributes = subscription.attributes
    topic_attributes = topic.attributes if topic else {}
    terms = delivery_terms(topic_attributes.get("DeliveryPolicy"), attributes.get("DeliveryPolicy"), subscription.raw)
    redrive: dict[str, Any] = msgspec.json.decode(attributes.get("RedrivePolicy") or "{}")
    return Target(
        arn=subscription.arn,
        protocol=subscription.protocol,
        endpoint=subscription.endpoint,
        confirmed=subscription.state is State.CONFIRMED,
        raw=subscription.raw,
        retry=terms.retry if subscription.protocol in HTTP_PROTOCOLS else QUEUE_POLICY,
        content_type=terms.content_type,
        dead_letter_arn=redrive.get("deadLetterTargetArn", ""),
        signature_version=topic_attributes.get("SignatureVersion", "1"),
    )


class Targets:
    """Targets by subscription ARN. The stores' `changed` callbacks keep what is remembered true."""

    def __init__(self, topics: TopicStore, subscriptions: SubscriptionStore) -> None:
        self._topic_store = topics
        self._subscription_store = subscriptions
        self._targets: Bounded[str, Target] = Bounded(TARGETS_REMEMBERED)
        self._topics: Bounded[str, Topic] = Bounded(TOPICS_REMEMBERED)
        self._changes = 0
        topics.changed.append(self._topic_changed)
        subscriptions.changed.append(self._subscription_changed)

    async def find(self, arns: Sequence[str]) -> list[Target]:
        """The targets that exist, in the order of `arns`."""
        missing = [arn for arn in arns if self._targets.get(arn) is None]
        fresh = {target.arn: target for target in await self._read(missing)} if missing else {}
        found = [self._targets.get(arn) or fresh.get(arn) for arn in arns]
        return [target for target in found if target is not None]

    def forget_all(self) -> None:
        """The store host was away, and so were its callbacks."""
        self._changes += 1
        self._targets.clear()
        self._topics.clear()

    async def _read(self, arns: Sequence[str]) -> list[Target]:
        changes = self._changes
        subscriptions = await self._subscription_store.get(arns)
        targets = [target_of(one, await self._topic(one.topic_arn)) for one in subscriptions]
        if changes == self._changes:  # else what was read may be older than what was told meanwhile
            for target in targets:
                self._targets.put(target.arn, target)
        return targets

    async def _topic(self, arn: str) -> Topic | None:
        topic = self._topics.get(arn)
        if topic is None:
            topic = await self._topic_store.get(arn)
            if topic is not None:
                self._topics.put(arn, topic)
        return topic

    def _topic_changed(self, arn: str) -> None:
        """A topic's policy is in the terms of all its subscriptions. One that is not remembered has none here."""
        self._changes += 1
        if self._topics.get(arn) is not None or len(self._topics) == TOPICS_REMEMBERED:
            self._topics.forget(arn)
            self._targets.clear()

    def _subscription_changed(self, arn: str) -> None:
        self._changes += 1
        self._targets.forget(arn)


def _value(data_type: str, text: str) -> dict[str, str | bytes]:
    if data_type.startswith("Binary"):
        return {"DataType": data_type, "BinaryValue": b64decode(text)}
    return {"DataType": data_type, "StringValue": text}
