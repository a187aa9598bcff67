"""The records of subscriptions and of confirmation tokens."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from cns_common.store_keys import Key

PAUSED = "DeliveryPaused"
"""An attribute beyond SNS's: `true` holds the subscription's messages until it is `false` again (ADR 0032)."""
RESUMED_AT = "ResumedAt"
"""When the last pause ended, in milliseconds. It is stored among the attributes and not shown."""


class SubscriptionState(IntEnum):
    """Only confirmed subscriptions get notifications. REMOVED ones were unsubscribed by a link, or by a caller who is
    not the owner; the token that was sent to the endpoint restores them."""

    PENDING = 0
    CONFIRMED = 1
    REMOVED = 2


class IndexState(IntEnum):
    """The state by which a store indexes a topic's subscriptions: FILTERED is confirmed and with a filter policy."""

    PENDING = 0
    CONFIRMED = 1
    REMOVED = 2
    FILTERED = 3


class _RedrivePolicy(msgspec.Struct, frozen=True):
    deadLetterTargetArn: str = ""  # noqa: N815  # the API's name


_redrive_policy = msgspec.json.Decoder(_RedrivePolicy).decode


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """`version` rises with each change."""

    id: Key  # UUID, the last part of the ARN
    topic_arn: Key
    topic_id: Key  # the topic's incarnation
    owner: Key  # the subscriber's account, which may not be the topic's
    principal: str  # ARN of the subscriber
    protocol: str
    endpoint: str
    state: SubscriptionState
    created_ms: int
    authenticated: bool = False
    """Protected: confirmed by its owner's signature, so that only a signed call removes it."""
    confirmed_ms: int = 0
    """When a token confirmed it. 0: confirmed when it was created, or before this field existed."""
    expires_ms: int = 0
    """When an unconfirmed subscription is deleted; 0 for a confirmed one."""
    version: int = 1
    attributes: dict[str, str] = {}
    """The attributes that were set, in stored form; others have their defaults."""

    @property
    def arn(self) -> str:
        return f"{self.topic_arn}:{self.id}"

    @property
    def region(self) -> str:
        return self.topic_arn.split(":", 4)[3]

    @property
    def raw(self) -> bool:
        return self.attributes.get("RawMessageDelivery") == "true"

    @property
    def paused(self) -> bool:
        return self.attributes.get(PAUSED) == "true"

    @property
    def resumed_ms(self) -> int:
        """When its last pause ended; 0: it was never paused."""
        return int(self.attributes.get(RESUMED_AT, "0"))

    @property
    def filter_policy(self) -> str:
        """The policy's text; '' stands for none."""
        return self.attributes.get("FilterPolicy", "")

    @property
    def filter_scope(self) -> str:
        return self.attributes.get("FilterPolicyScope", "MessageAttributes")

    @property
    def dead_letter_arn(self) -> str:
        """The ARN of its dead-letter queue; '' stands for none."""
        policy = self.attributes.get("RedrivePolicy")
        return _redrive_policy(policy).deadLetterTargetArn if policy else ""

    @property
    def index_state(self) -> IndexState:
        filtered = self.state is SubscriptionState.CONFIRMED and self.filter_policy
        return IndexState.FILTERED if filtered else IndexState(self.state)


class ConfirmationToken(msgspec.Struct, frozen=True):
    """The token in a confirmation message: its bearer may confirm or restore the subscription."""

    text: str
    subscription_arn: str
    expires_ms: int


class SubscriptionCounts(msgspec.Struct, frozen=True):
    pending: int = 0
    confirmed: int = 0
    removed: int = 0
    filter_policies: int = 0
    """Filter policies of subscriptions in any state."""


def filters_alike(one: Subscription | None, other: Subscription | None) -> bool:
    """Whether both records (None: no record) have the same effect on filtering: no filter, or the same filter."""
    filters = [_filter_of(each) for each in (one, other)]
    return filters[0] == filters[1]


def _filter_of(subscription: Subscription | None) -> tuple[str, str] | None:
    if subscription is None or subscription.index_state is not IndexState.FILTERED:
        return None
    return subscription.filter_policy, subscription.filter_scope


def id_of(arn: str) -> str:
    """The id in a subscription's ARN."""
    return arn.rpartition(":")[2]
