"""A subscription: which endpoint gets a topic's notifications, how, and whether it agreed to."""

from __future__ import annotations

from enum import IntEnum

import msgspec

HTTP_PROTOCOLS = frozenset({"http", "https"})


class State(IntEnum):
    """Only the confirmed get notifications. REMOVED ones were unsubscribed by their link, or by another than their
    owner: the token sent to the endpoint then restores them."""

    PENDING = 0
    CONFIRMED = 1
    REMOVED = 2


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription's record. `version` rises with each change."""

    id: str  # UUID text: the last part of the ARN
    topic_arn: str
    topic_id: str  # the topic's incarnation
    owner: str  # the subscriber's account, which may not be the topic's
    principal: str  # ARN of the subscriber
    protocol: str
    endpoint: str
    state: State
    created_ms: int
    authenticated: bool = False
    """Confirmed by its owner's signature: protected, so that only a signed call removes it."""
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


class Token(msgspec.Struct, frozen=True):
    """What a confirmation message carries: whoever has it may confirm (or restore) its subscription."""

    text: str
    subscription_arn: str
    expires_ms: int


class SubscriptionCounts(msgspec.Struct, frozen=True):
    pending: int = 0
    confirmed: int = 0
    removed: int = 0


def id_of(arn: str) -> str:
    """The id in a subscription's ARN."""
    return arn.rpartition(":")[2]
