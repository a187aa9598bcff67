"""Delivery targets: the endpoint of a subscription, its terms and its dead-letter queue, cached until it changes."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cns.delivery.delivery_policy import DEFAULT_CONTENT_TYPE, delivery_terms
from cns.delivery.jobs import DirectJob
from cns.delivery.retry_policy import RetryPolicy
from cns.delivery.status_logging import NO_FEEDBACK, Feedback, topic_feedback
from cns.delivery.webhook_secrets import NO_SECRET, SecretState, secret_state
from cns.notification import Notification
from cns.protocols.contract import Transport
from cns.protocols.table import find_protocol
from cns.stores.contract import SubscriptionStore, TopicStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.attributes import SIGN_QUEUE_ENVELOPES
from cns.topics.topic import Topic
from cns_common.bounded_cache import BoundedCache

TARGETS_CACHED_MAX = 20_000
TOPICS_CACHED_MAX = 10_000
PAUSED_CACHED_MAX = 5_000
"""Targets of paused subscriptions, and topics of these. They have a cache of their own, because the lanes of all paused
subscriptions are looked at again and again, and would evict the targets that messages are sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`retry` is AWS's fixed policy of the protocol, or the delivery policy in effect where that applies. The target of
    a message published to an endpoint itself has no ARN."""

    arn: str
    protocol: str
    endpoint: str
    confirmed: bool
    raw: bool
    retry: RetryPolicy
    content_type: str
    dead_letter_arn: str
    signature_version: str
    account: str  # account and region of the topic, or of the publisher
    region: str
    display_name: str = ""  # the topic's
    receives_per_second: int | None = None  # the throttle policy's
    redrive_policy: str = ""  # the attribute's text
    paused: bool = False
    resumed_ms: int = 0  # when the last pause ended
    webhook_secret: SecretState = NO_SECRET
    signed: bool = True  # whether its envelopes are
    feedback: Feedback | None = None  # the topic's status logging; None when nothing can ask for any
    group: str = field(init=False)
    """The fairness group: the topic, or the account that published to an endpoint itself."""
    endpoint_key: str = field(init=False)
    """The key of the endpoint's limits and circuit breaker. Accounts are separate: each has its own breaker."""
    endpoint_name: str = field(init=False)
    """In events and reports."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.arn.rpartition(":")[0] or self.account)
        object.__setattr__(self, "endpoint_key", f"{self.account} {self.endpoint}")
        object.__setattr__(self, "endpoint_name", find_protocol(self.protocol).endpoint_name(self.endpoint))

    def queue_attributes(self, notification: Notification) -> dict[str, dict[str, str | bytes]]:
        """The notification's attributes as parameters of SendMessage, for raw delivery to a queue."""
        return {name: _value(data_type, text) for name, (data_type, text) in notification.attributes.items()}


def target_of(subscription: Subscription, topic: Topic | None) -> Target:
    attributes = subscription.attributes
    topic_attributes = topic.attributes if topic else {}
    terms = delivery_terms(topic_attributes.get("DeliveryPolicy"), attributes.get("DeliveryPolicy"), subscription.raw)
    protocol = find_protocol(subscription.protocol)
    fixed_retry = protocol.retry
    region, account = subscription.topic_arn.split(":", 5)[3:5]
    return Target(
        arn=subscription.arn,
        protocol=subscription.protocol,
        endpoint=subscription.endpoint,
        confirmed=subscription.state is SubscriptionState.CONFIRMED,
        raw=subscription.raw,
        retry=fixed_retry or terms.retry,
        content_type=terms.content_type,
        dead_letter_arn=subscription.dead_letter_arn,
        signature_version=topic_attributes.get("SignatureVersion", "1"),
        account=account,
        region=region,
        display_name=topic_attributes.get("DisplayName", ""),
        receives_per_second=None if fixed_retry else terms.receives_per_second,
        redrive_policy=attributes.get("RedrivePolicy", ""),
        paused=subscription.paused,
        resumed_ms=subscription.resumed_ms,
        webhook_secret=secret_state(subscription),
        signed=protocol.transport is not Transport.QUEUE or topic_attributes.get(SIGN_QUEUE_ENVELOPES) != "false",
        feedback=_feedback(topic_attributes, subscription.protocol),
    )


def direct_target(job: DirectJob) -> Target:
    """The target of a message published to a phone number or a mobile endpoint."""
    return Target(
        arn="",
        protocol=job.protocol,
        endpoint=job.endpoint,
        confirmed=True,
        raw=False,
        retry=find_protocol(job.protocol).retry or RetryPolicy(),
        content_type=DEFAULT_CONTENT_TYPE,
        dead_letter_arn="",
        signature_version="1",
        account=job.account,
        region=job.region,
        feedback=NO_FEEDBACK,
    )


class TargetCache:
    """Targets by subscription ARN. The stores' `changed` callbacks invalidate entries."""

    def __init__(self, topics: TopicStore, subscriptions: SubscriptionStore) -> None:
        self._topic_store = topics
        self._subscription_store = subscriptions
        self._active = _CachedTargets(TARGETS_CACHED_MAX, TOPICS_CACHED_MAX)
        self._paused = _CachedTargets(PAUSED_CACHED_MAX, PAUSED_CACHED_MAX)
        self._changes = 0
        self.changed: list[Callable[[str], None]] = []
        """Callbacks, called with the ARN of a subscription whose target is to be read again."""
        self.all_changed: list[Callable[[], None]] = []
        """Callbacks, called when any target may have changed without an announcement."""
        topics.changed.append(self._topic_changed)
        subscriptions.changed.append(self._subscription_changed)

    async def find(self, arns: Sequence[str]) -> list[Target]:
        """The targets that exist, in the order of `arns`."""
        missing = [arn for arn in arns if self._cached(arn) is None]
        fresh = {target.arn: target for target in await self._read(missing)} if missing else {}
        found = [self._cached(arn) or fresh.get(arn) for arn in arns]
        return [target for target in found if target is not None]

    def forget_all(self) -> None:
        """Invalidate everything after a lost connection: callbacks may have been missed."""
        self._changes += 1
        for cached in (self._active, self._paused):
            cached.clear()
        for callback in self.all_changed:
            callback()

    def _cached(self, arn: str) -> Target | None:
        return self._active.get(arn) or self._paused.get(arn)

    async def _read(self, arns: Sequence[str]) -> list[Target]:
        changes = self._changes
        subscriptions = await self._subscription_store.get(arns)
        topics = {arn: await self._topic(arn) for arn in {one.topic_arn for one in subscriptions}}
        targets = [target_of(one, topics[one.topic_arn]) for one in subscriptions]
        if changes == self._changes:  # else a change came during the reads, which may be older
            for target, subscription in zip(targets, subscriptions, strict=True):
                if target.confirmed:  # a confirmation that is announced late must not lose publishes after it
                    cached = self._paused if target.paused else self._active
                    cached.put(target, topics[subscription.topic_arn])
        return targets

    async def _topic(self, arn: str) -> Topic | None:
        return self._active.topic(arn) or self._paused.topic(arn) or await self._topic_store.get(arn)

    def _topic_changed(self, arn: str) -> None:
        self._changes += 1
        for cached in (self._active, self._paused):
            cached.forget_topic(arn)

    def _subscription_changed(self, arn: str) -> None:
        self._changes += 1
        for cached in (self._active, self._paused):
            cached.forget(arn)
        for callback in self.changed:
            callback(arn)


class _CachedTargets:
    """A bounded number of targets, and the topics that they were made with."""

    def __init__(self, targets_max: int, topics_max: int) -> None:
        self._targets: BoundedCache[str, Target] = BoundedCache(targets_max)
        self._topics: BoundedCache[str, Topic] = BoundedCache(topics_max)
        self._topics_max = topics_max

    def get(self, arn: str) -> Target | None:
        return self._targets.get(arn)

    def topic(self, arn: str) -> Topic | None:
        return self._topics.get(arn)

    def put(self, target: Target, topic: Topic | None) -> None:
        self._targets.put(target.arn, target)
        if topic is not None:
            self._topics.put(topic.arn, topic)

    def forget(self, arn: str) -> None:
        self._targets.forget(arn)

    def forget_topic(self, arn: str) -> None:
        """Forget a topic that changed, and all targets: its policy is part of those of its subscriptions. A topic that
        is not cached has no targets here, unless it was evicted."""
        if self._topics.get(arn) is not None or len(self._topics) == self._topics_max:
            self._topics.forget(arn)
            self._targets.clear()

    def clear(self) -> None:
        self._targets.clear()
        self._topics.clear()


def _feedback(topic_attributes: Mapping[str, str], protocol: str) -> Feedback | None:
    feedback = topic_feedback(topic_attributes, protocol)
    return None if feedback == NO_FEEDBACK and not find_protocol(protocol).own_feedback else feedback


def _value(data_type: str, text: str) -> dict[str, str | bytes]:
    if data_type.startswith("Binary"):
        return {"DataType": data_type, "BinaryValue": b64decode(text)}
    return {"DataType": data_type, "StringValue": text}
