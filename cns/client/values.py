"""Values that the REST API returns. Times are milliseconds since the epoch."""

from __future__ import annotations

import msgspec


class QueueDefinition(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    account: str
    region: str
    arn: str
    url: str
    attributes: dict[str, str]
    tags: dict[str, str] = {}


class QueueNames(msgspec.Struct, frozen=True, rename="camel"):
    queues: list[str]
    definitions: list[QueueDefinition] | None = None
    next: str | None = None


class Totals(msgspec.Struct, frozen=True, rename="camel"):
    """Messages since the queue was made or purged, as its engine last wrote them down."""

    pushed: int
    popped: int
    depth: int
    pushed_per_second: float
    popped_per_second: float
    counted_at: int


class HourTotals(msgspec.Struct, frozen=True, rename="camel"):
    """The messages of the hour that begins at `hour`; `depth` is the number left at its end."""

    hour: int
    pushed: int
    popped: int
    depth: int


class Statistics(msgspec.Struct, frozen=True, rename="camel"):
    visible: int
    in_flight: int
    delayed: int
    totals: Totals | None = None
    hours: list[HourTotals] | None = None


class SentMessage(msgspec.Struct, frozen=True, rename="camel"):
    message_id: str
    md5_of_body: str
    sequence_number: str | None = None


class MessageAttribute(msgspec.Struct, frozen=True, rename="camel"):
    data_type: str
    string_value: str | None = None
    binary_value: str | None = None


class ReceivedMessage(msgspec.Struct, frozen=True, rename="camel"):
    message_id: str
    pop_receipt: str
    body: str
    delivery_count: int
    sent_at: int
    first_received_at: int
    attributes: dict[str, MessageAttribute] = {}
    system_attributes: dict[str, str] = {}


class BrowsedMessage(msgspec.Struct, frozen=True, rename="camel"):
    message_id: str
    body: str
    state: str
    delivery_count: int
    sent_at: int
    visible_at: int
    group_id: str | None = None


class BrowsedMessages(msgspec.Struct, frozen=True, rename="camel"):
    messages: list[BrowsedMessage]
    next: str | None = None


class Permission(msgspec.Struct, frozen=True, rename="camel"):
    token: str
    expires_at: int
    query_string: str
    url: str


class TopicDefinition(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    arn: str
    attributes: dict[str, str]


class Topics(msgspec.Struct, frozen=True, rename="camel"):
    topics: list[str]
    next: str | None = None


class PublishedMessage(msgspec.Struct, frozen=True, rename="camel"):
    message_id: str
    sequence_number: str | None = None


class Subscription(msgspec.Struct, frozen=True, rename="camel"):
    arn: str
    protocol: str
    endpoint: str
    owner: str
    topic_arn: str


class Subscriptions(msgspec.Struct, frozen=True, rename="camel"):
    subscriptions: list[Subscription]
    next: str | None = None


class SubscriptionArn(msgspec.Struct, frozen=True, rename="camel"):
    """`warnings`: why messages will not arrive, or may be lost."""

    arn: str
    warnings: list[str] = []


class Caller(msgspec.Struct, frozen=True, rename="camel"):
    """The caller that the service identifies by the credentials."""

    account: str
    arn: str
    region: str
