"""A typed client of the REST API, for programs: `Client`, and `AsyncClient` for asyncio (seed 001).

with Client("http://127.0.0.1:6059", key_id="AKIA…", secret="…") as cns:
    orders = cns.create_queue("orders")
    cns.put_message("orders", "hello")
    message = cns.next_message("orders", wait_seconds=5)
    if message is not None:
        cns.acknowledge_message("orders", message.pop_receipt)

Each method sends one request; a refusal raises ApiError. A call is written once, in `async_calls`; `make format`
generates `sync_calls` from it.
"""

from cns.client.async_calls.client import AsyncClient
from cns.client.requests import ApiError, Credentials
from cns.client.sync_calls.client import Client
from cns.client.values import (
    BrowsedMessages,
    Permission,
    QueueDefinition,
    QueueNames,
    ReceivedMessage,
    SentMessage,
    Statistics,
    Subscriptions,
    TopicDefinition,
    Topics,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "BrowsedMessages",
    "Client",
    "Credentials",
    "Permission",
    "QueueDefinition",
    "QueueNames",
    "ReceivedMessage",
    "SentMessage",
    "Statistics",
    "Subscriptions",
    "TopicDefinition",
    "Topics",
]
