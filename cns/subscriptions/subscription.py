"""A subscription: which endpoint gets a topic's notifications, how, and whether it agreed to."""

from __future__ import annotations

from enum import IntEnum

import msgspec

HTTP_PROTOCOLS = frozenset({"http", "https"})
MAIL_PROTOCOLS = frozenset({"email", "email-json"})
LINK_PROTOCOLS = HTTP_PROTOCOLS | MAIL_PROTOCOLS
"""What they get has links, which work without a signature."""
RAW_PROTOCOLS = HTTP_PROTOCOLS | {"sqs", "firehose", "redis"}
"""They can do without an envelope; Redis is our addition."""


class SubscriptionState(IntEnum):
    """Only the confirmed get notifications. REMOVED ones were unsubscribed by their link, or by another than their
    owner: the token sent to the endpoint then restores them."""

    PENDING = 0
    CONFIRMED = 1
    REMOVED = 2


class IndexState(IntEnum):
    """Which list of its topic a subscription is in: its state's, or, confirmed and with a filter, the one of those."""

    PENDING = 0
    CONFIRMED = 1
    REMOVED = 2
    FILTERED = 3


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription's record. `version` rises with each change."""

    id: str  # UUID text: the last part of the ARN
    topic_arn: str
    topic_id: str  # the topic's incarnation
    owner: str  # the subscriber's account, which may not be the topic's
    principal: str  # ARN of the subscriber
    protocol: str
    endpoint: str
    state: SubscriptionState
    created_ms: int
    authenticated: bool = False
    """Confirmed by its owner's signature: protected, so that only a signed call removes it."""
    signed: bool = False
    """Confirmed by a signed call, whether or not that protected it."""
    confirmed_ms: int = 0
    """When it was confirmed by its token; 0: when it was made, or before this was noted."""
    expires_ms: int = 0
    """When one that is not confirmed is forgotten; 0 for the confirmed."""
    version: int = 1
    attributes: dict[str, str] = {}
    """Those that were set, checked and normalised; the rest have their defaults."""

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
    def filter_policy(self) -> str:
        """'': it gets everything."""
        return self.attributes.get("FilterPolicy", "")

    @property
    def filter_scope(self) -> str:
        return self.attributes.get("FilterPolicyScope", "MessageAttributes")

    @property
    def index_state(self) -> IndexState:
        filtered = self.state is SubscriptionState.CONFIRMED and self.filter_policy
        return IndexState.FILTERED if filtered else IndexState(self.state)


class ConfirmationToken(msgspec.Struct, frozen=True):
    """What a confirmation message carries: whoever has it may confirm (or restore) its subscription."""

    text: str
    subscription_arn: str
    expires_ms: int


class SubscriptionCounts(msgspec.Struct, frozen=True):
    pending: int = 0
    confirmed: int = 0
    removed: int = 0
    filter_policies: int = 0
    """Whatever state their subscriptions are in."""


def filters_alike(one: Subscription | None, other: Subscription | None) -> bool:
    """Whether publishing may take one record for the other, None being none: neither is filtered, or both equally."""
    filters = [_filter_of(each) for each in (one, other)]
    return filters[0] == filters[1]


def _filter_of(subscription: Subscription | None) -> tuple[str, str] | None:
    if subscription is None or subscription.index_state is not IndexState.FILTERED:
        return None
    return subscription.filter_policy, subscription.filter_scope


def id_of(arn: str) -> str:
    """The id in a subscription's ARN."""
    return arn.rpartition(":")[2]
