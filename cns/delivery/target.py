"""A subscription as its deliveries see it: endpoint, terms, dead-letter queue; kept until it changes."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cns.delivery.delivery_policy import DEFAULT_CONTENT_TYPE, delivery_terms
from cns.delivery.jobs import DirectJob
from cns.delivery.retry_policy import MAIL_POLICY, QUEUE_POLICY, RetryPolicy
from cns.delivery.status_logging import NO_FEEDBACK, Feedback, topic_feedback
from cns.notification import Notification
from cns.stores.contract import SubscriptionStore, TopicStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.bounded_cache import BoundedCache

FIXED_POLICIES: Mapping[str, RetryPolicy] = {
    **dict.fromkeys(("sqs", "lambda", "firehose"), QUEUE_POLICY),
    **dict.fromkeys(("sms", "application", "email", "email-json"), MAIL_POLICY),
}
"""Those that no delivery policy changes."""
OWN_FEEDBACK = ("sms", "application")
"""Protocols whose deliveries accounts and applications may want logged, too: whether they do, is asked at each."""
TARGETS_CACHED_MAX = 20_000
TOPICS_CACHED_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`retry` is AWS's fixed policy of the protocol, or the effective delivery policy where that applies. What was
    published to an endpoint itself has a target without an ARN."""

    arn: str
    protocol: str
    endpoint: str
    confirmed: bool
    raw: bool
    retry: RetryPolicy
    content_type: str
    dead_letter_arn: str
    signature_version: str
    account: str  # of whoever publishes there, and the region
    region: str
    display_name: str = ""  # the topic's
    receives_per_second: int | None = None  # the throttle policy's
    redrive_policy: str = ""  # as it was set
    feedback: Feedback | None = None  # what the topic wants logged; None where nobody can want anything
    group: str = field(init=False)
    """By what deliveries take turns: the topic, or the account that published to an endpoint itself."""
    endpoint_key: str = field(init=False)
    """What its sends share their room with: whoever else sends there, each account finds out for itself how it is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.arn.rpartition(":")[0] or self.account)
        object.__setattr__(self, "endpoint_key", f"{self.account} {self.endpoint}")

    def queue_attributes(self, notification: Notification) -> dict[str, dict[str, str | bytes]]:
        """The notification's attributes as SendMessage takes them, for raw delivery to a queue."""
        return {name: _value(data_type, text) for name, (data_type, text) in notification.attributes.items()}


def target_of(subscription: Subscription, topic: Topic | None) -> Target:
    attributes = subscription.attributes
    topic_attributes = topic.attributes if topic else {}
    terms = delivery_terms(topic_attributes.get("DeliveryPolicy"), attributes.get("DeliveryPolicy"), subscription.raw)
    region, account = subscription.topic_arn.split(":", 5)[3:5]
    redrive: dict[str, Any] = msgspec.json.decode(attributes.get("RedrivePolicy") or "{}")
    return Target(
        arn=subscription.arn,
        protocol=subscription.protocol,
        endpoint=subscription.endpoint,
        confirmed=subscription.state is SubscriptionState.CONFIRMED,
        raw=subscription.raw,
        retry=FIXED_POLICIES.get(subscription.protocol, terms.retry),
        content_type=terms.content_type,
        dead_letter_arn=redrive.get("deadLetterTargetArn", ""),
        signature_version=topic_attributes.get("SignatureVersion", "1"),
        account=account,
        region=region,
        display_name=topic_attributes.get("DisplayName", ""),
        receives_per_second=None if subscription.protocol in FIXED_POLICIES else terms.receives_per_second,
        redrive_policy=attributes.get("RedrivePolicy", ""),
        feedback=_feedback(topic_attributes, subscription.protocol),
    )


def direct_target(job: DirectJob) -> Target:
    """For what was published to a phone number or a mobile endpoint."""
    return Target(
        arn="",
        protocol=job.protocol,
        endpoint=job.endpoint,
        confirmed=True,
        raw=False,
        retry=FIXED_POLICIES[job.protocol],
        content_type=DEFAULT_CONTENT_TYPE,
        dead_letter_arn="",
        signature_version="1",
        account=job.account,
        region=job.region,
        feedback=NO_FEEDBACK,
    )


class TargetCache:
    """Targets by subscription ARN. The stores' `changed` callbacks keep what is remembered true."""

    def __init__(self, topics: TopicStore, subscriptions: SubscriptionStore) -> None:
        self._topic_store = topics
        self._subscription_store = subscriptions
        self._targets: BoundedCache[str, Target] = BoundedCache(TARGETS_CACHED_MAX)
        self._topics: BoundedCache[str, Topic] = BoundedCache(TOPICS_CACHED_MAX)
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
                if target.confirmed:  # who is told late of a confirmation must not lose what is published after it
                    self._targets.put(target.arn, target)
        return targets

    async def _topic(self, arn: str) -> Topic | None:
        topic = self._topics.get(arn)
        if topic is None:
            changes = self._changes
            topic = await self._topic_store.get(arn)
            if topic is not None and changes == self._changes:  # as above
                self._topics.put(arn, topic)
        return topic

    def _topic_changed(self, arn: str) -> None:
        """A topic's policy is in the terms of all its subscriptions. One that is not remembered has none here."""
        self._changes += 1
        if self._topics.get(arn) is not None or len(self._topics) == TOPICS_CACHED_MAX:
            self._topics.forget(arn)
            self._targets.clear()

    def _subscription_changed(self, arn: str) -> None:
        self._changes += 1
        self._targets.forget(arn)


def _feedback(topic_attributes: Mapping[str, str], protocol: str) -> Feedback | None:
    feedback = topic_feedback(topic_attributes, protocol)
    return None if feedback == NO_FEEDBACK and protocol not in OWN_FEEDBACK else feedback


def _value(data_type: str, text: str) -> dict[str, str | bytes]:
    if data_type.startswith("Binary"):
        return {"DataType": data_type, "BinaryValue": b64decode(text)}
    return {"DataType": data_type, "StringValue": text}
