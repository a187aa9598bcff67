"""The public names of values that the REST API returns. Times are milliseconds since the epoch."""

from __future__ import annotations

from cns.rest.models import (
    BrowsedMessage,
    BrowsedMessages,
    Caller,
    MessageAttribute,
    Permission,
    PublishedMessage,
    Queue,
    QueueList,
    ReceivedMessage,
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

# names that programs already import
QueueDefinition = Queue
QueueNames = QueueList
TopicDefinition = Topic
Topics = TopicList
Subscriptions = SubscriptionList
