"""Values that the REST API returns. Times are milliseconds since the epoch."""

from __future__ import annotations

import msgspec

from cns.rest.models import (
    Caller,
    Permission,
    PublishedMessage,
    Queue,
    QueueList,
    SentMessage,
    Statistics,
    Subscription,
    SubscriptionArn,
    SubscriptionList,
    Topic,
    TopicList,
)

__all__ = [
    "BrowsedMessage",
    "BrowsedMessages",
    "Caller",
    "MessageAttribute",
    "Permission",
    "PublishedMessage",
    "QueueDefinition",
    "QueueNames",
    "ReceivedMessage",
    "SentMessage",
    "Statistics",
    "Subscription",
    "SubscriptionArn",
    "Subscriptions",
    "TopicDefinition",
    "Topics",
]

QueueDefinition = Queue
QueueNames = QueueList
TopicDefinition = Topic
Topics = TopicList
Subscriptions = SubscriptionList


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
