"""The clients. Each method sends one request of `Requests`; a refusal raises ApiError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx

from cns.client import values
from cns.client.requests import DEFAULT_LIFE_S, PREFIX, ApiRequest, Credentials, Requests

T = TypeVar("T")
TIMEOUT_S = 30.0
_NONE: Mapping[str, str] = {}


def _options(url: str, credentials: Credentials, region: str) -> dict[str, Any]:
    query = dict(httpx.QueryParams(credentials.query))
    if region:
        query["region"] = region
    return {
        "base_url": url.rstrip("/") + PREFIX,
        "headers": credentials.headers(),
        "auth": credentials.basic(),
        "params": query,
        "timeout": TIMEOUT_S,
    }


def _arguments(request: ApiRequest[T]) -> dict[str, Any]:
    return {"method": request.method, "url": request.path, "params": request.params, "json": request.body}


def find_caller(url: str, credentials: Credentials) -> values.Caller:
    """Whom the service takes the credentials for. Raises ApiError."""
    request = ApiRequest("GET", "/caller", values.Caller)
    with httpx.Client(**_options(url, credentials, "")) as http:
        return request.read(http.request(**_arguments(request)))


class Client:
    """A client for threads. Use it as a context manager, or close it."""

    def __init__(self, url: str, account: str, credentials: Credentials, *, region: str = "") -> None:
        """`url` is the service's, such as http://127.0.0.1:6059; `region` is the service's own by default."""
        self._http = httpx.Client(**_options(url, credentials, region))
        self._requests = Requests(account)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def list_queues(self, prefix: str = "", after: str = "") -> values.QueueNames:
        """The names of the account's queues, a page at a time."""
        request = self._requests.list_queues(prefix, after)
        return request.read(self._http.request(**_arguments(request)))

    def create_queue(
        self, name: str, attributes: Mapping[str, str] = _NONE, tags: Mapping[str, str] = _NONE
    ) -> values.QueueDefinition:
        """Create a queue, or find the one with these attributes."""
        request = self._requests.create_queue(name, attributes, tags)
        return request.read(self._http.request(**_arguments(request)))

    def show_queue(self, queue: str) -> values.QueueDefinition:
        """The queue with all its attributes."""
        request = self._requests.show_queue(queue)
        return request.read(self._http.request(**_arguments(request)))

    def change_queue(self, queue: str, attributes: Mapping[str, str]) -> values.QueueDefinition:
        """Set attributes."""
        request = self._requests.change_queue(queue, attributes)
        return request.read(self._http.request(**_arguments(request)))

    def delete_queue(self, queue: str) -> None:
        """Delete the queue and its messages."""
        request = self._requests.delete_queue(queue)
        request.read_optional(self._http.request(**_arguments(request)))

    def purge_queue(self, queue: str) -> None:
        """Delete all messages of the queue."""
        request = self._requests.purge_queue(queue)
        request.read_optional(self._http.request(**_arguments(request)))

    def queue_statistics(self, queue: str) -> values.Statistics:
        """How many messages wait, are leased, are delayed."""
        request = self._requests.queue_statistics(queue)
        return request.read(self._http.request(**_arguments(request)))

    def put_message(
        self,
        queue: str,
        text: str,
        *,
        delay_seconds: int | None = None,
        group_id: str | None = None,
        deduplication_id: str | None = None,
    ) -> values.SentMessage:
        """Put a message at the tail of the queue."""
        request = self._requests.put_message(queue, text, delay_seconds, group_id, deduplication_id)
        return request.read(self._http.request(**_arguments(request)))

    def next_message(
        self, queue: str, *, lease_seconds: int | None = None, wait_seconds: int | None = None
    ) -> values.ReceivedMessage | None:
        """Lease the next message; None if there is none."""
        request = self._requests.next_message(queue, lease_seconds, wait_seconds)
        return request.read_optional(self._http.request(**_arguments(request)))

    def update_message(
        self, queue: str, pop_receipt: str, *, text: str | None = None, lease_seconds: int | None = None
    ) -> None:
        """Replace the contents of a leased message, renew its lease, or both."""
        request = self._requests.update_message(queue, pop_receipt, text, lease_seconds)
        request.read_optional(self._http.request(**_arguments(request)))

    def acknowledge_message(self, queue: str, pop_receipt: str) -> None:
        """Delete a leased message. ApiError `LeaseExpired` if another delivery has it."""
        request = self._requests.acknowledge_message(queue, pop_receipt)
        request.read_optional(self._http.request(**_arguments(request)))

    def browse_messages(self, queue: str, *, after: str = "", limit: int = 10) -> values.BrowsedMessages:
        """Look at messages without leasing them."""
        request = self._requests.browse_messages(queue, after, limit)
        return request.read(self._http.request(**_arguments(request)))

    def list_topics(self, after: str = "") -> values.Topics:
        """The ARNs of the account's topics, a page at a time."""
        request = self._requests.list_topics(after)
        return request.read(self._http.request(**_arguments(request)))

    def create_topic(self, name: str, attributes: Mapping[str, str] = _NONE) -> values.TopicDefinition:
        """Create a topic, or find the one with these attributes."""
        request = self._requests.create_topic(name, attributes)
        return request.read(self._http.request(**_arguments(request)))

    def delete_topic(self, topic: str) -> None:
        """Delete the topic and its subscriptions."""
        request = self._requests.delete_topic(topic)
        request.read_optional(self._http.request(**_arguments(request)))

    def publish_message(
        self,
        topic: str,
        message: str,
        *,
        subject: str | None = None,
        group_id: str | None = None,
        deduplication_id: str | None = None,
    ) -> values.PublishedMessage:
        """Publish a message to all subscriptions."""
        request = self._requests.publish_message(topic, message, subject, group_id, deduplication_id)
        return request.read(self._http.request(**_arguments(request)))

    def subscribe(
        self, topic: str, protocol: str, endpoint: str, attributes: Mapping[str, str] = _NONE
    ) -> values.SubscriptionArn:
        """Subscribe an endpoint."""
        request = self._requests.subscribe(topic, protocol, endpoint, attributes)
        return request.read(self._http.request(**_arguments(request)))

    def list_topic_subscriptions(self, topic: str, after: str = "") -> values.Subscriptions:
        """The topic's subscriptions, a page at a time."""
        request = self._requests.list_topic_subscriptions(topic, after)
        return request.read(self._http.request(**_arguments(request)))

    def create_permission(
        self, levels: Sequence[str] = (), *, queue: str = "", life_seconds: int = DEFAULT_LIFE_S
    ) -> values.Permission:
        """A token and signed URL with these levels (empty: all), for one queue or the account."""
        request = self._requests.create_permission(levels, queue, life_seconds)
        return request.read(self._http.request(**_arguments(request)))


class AsyncClient:
    """The same for asyncio."""

    def __init__(self, url: str, account: str, credentials: Credentials, *, region: str = "") -> None:
        """`url` is the service's, such as http://127.0.0.1:6059; `region` is the service's own by default."""
        self._http = httpx.AsyncClient(**_options(url, credentials, region))
        self._requests = Requests(account)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def list_queues(self, prefix: str = "", after: str = "") -> values.QueueNames:
        """The names of the account's queues, a page at a time."""
        request = self._requests.list_queues(prefix, after)
        return request.read(await self._http.request(**_arguments(request)))

    async def create_queue(
        self, name: str, attributes: Mapping[str, str] = _NONE, tags: Mapping[str, str] = _NONE
    ) -> values.QueueDefinition:
        """Create a queue, or find the one with these attributes."""
        request = self._requests.create_queue(name, attributes, tags)
        return request.read(await self._http.request(**_arguments(request)))

    async def show_queue(self, queue: str) -> values.QueueDefinition:
        """The queue with all its attributes."""
        request = self._requests.show_queue(queue)
        return request.read(await self._http.request(**_arguments(request)))

    async def change_queue(self, queue: str, attributes: Mapping[str, str]) -> values.QueueDefinition:
        """Set attributes."""
        request = self._requests.change_queue(queue, attributes)
        return request.read(await self._http.request(**_arguments(request)))

    async def delete_queue(self, queue: str) -> None:
        """Delete the queue and its messages."""
        request = self._requests.delete_queue(queue)
        request.read_optional(await self._http.request(**_arguments(request)))

    async def purge_queue(self, queue: str) -> None:
        """Delete all messages of the queue."""
        request = self._requests.purge_queue(queue)
        request.read_optional(await self._http.request(**_arguments(request)))

    async def queue_statistics(self, queue: str) -> values.Statistics:
        """How many messages wait, are leased, are delayed."""
        request = self._requests.queue_statistics(queue)
        return request.read(await self._http.request(**_arguments(request)))

    async def put_message(
        self,
        queue: str,
        text: str,
        *,
        delay_seconds: int | None = None,
        group_id: str | None = None,
        deduplication_id: str | None = None,
    ) -> values.SentMessage:
        """Put a message at the tail of the queue."""
        request = self._requests.put_message(queue, text, delay_seconds, group_id, deduplication_id)
        return request.read(await self._http.request(**_arguments(request)))

    async def next_message(
        self, queue: str, *, lease_seconds: int | None = None, wait_seconds: int | None = None
    ) -> values.ReceivedMessage | None:
        """Lease the next message; None if there is none."""
        request = self._requests.next_message(queue, lease_seconds, wait_seconds)
        return request.read_optional(await self._http.request(**_arguments(request)))

    async def update_message(
        self, queue: str, pop_receipt: str, *, text: str | None = None, lease_seconds: int | None = None
    ) -> None:
        """Replace the contents of a leased message, renew its lease, or both."""
        request = self._requests.update_message(queue, pop_receipt, text, lease_seconds)
        request.read_optional(await self._http.request(**_arguments(request)))

    async def acknowledge_message(self, queue: str, pop_receipt: str) -> None:
        """Delete a leased message. ApiError `LeaseExpired` if another delivery has it."""
        request = self._requests.acknowledge_message(queue, pop_receipt)
        request.read_optional(await self._http.request(**_arguments(request)))

    async def browse_messages(self, queue: str, *, after: str = "", limit: int = 10) -> values.BrowsedMessages:
        """Look at messages without leasing them."""
        request = self._requests.browse_messages(queue, after, limit)
        return request.read(await self._http.request(**_arguments(request)))

    async def list_topics(self, after: str = "") -> values.Topics:
        """The ARNs of the account's topics, a page at a time."""
        request = self._requests.list_topics(after)
        return request.read(await self._http.request(**_arguments(request)))

    async def create_topic(self, name: str, attributes: Mapping[str, str] = _NONE) -> values.TopicDefinition:
        """Create a topic, or find the one with these attributes."""
        request = self._requests.create_topic(name, attributes)
        return request.read(await self._http.request(**_arguments(request)))

    async def delete_topic(self, topic: str) -> None:
        """Delete the topic and its subscriptions."""
        request = self._requests.delete_topic(topic)
        request.read_optional(await self._http.request(**_arguments(request)))

    async def publish_message(
        self,
        topic: str,
        message: str,
        *,
        subject: str | None = None,
        group_id: str | None = None,
        deduplication_id: str | None = None,
    ) -> values.PublishedMessage:
        """Publish a message to all subscriptions."""
        request = self._requests.publish_message(topic, message, subject, group_id, deduplication_id)
        return request.read(await self._http.request(**_arguments(request)))

    async def subscribe(
        self, topic: str, protocol: str, endpoint: str, attributes: Mapping[str, str] = _NONE
    ) -> values.SubscriptionArn:
        """Subscribe an endpoint."""
        request = self._requests.subscribe(topic, protocol, endpoint, attributes)
        return request.read(await self._http.request(**_arguments(request)))

    async def list_topic_subscriptions(self, topic: str, after: str = "") -> values.Subscriptions:
        """The topic's subscriptions, a page at a time."""
        request = self._requests.list_topic_subscriptions(topic, after)
        return request.read(await self._http.request(**_arguments(request)))

    async def create_permission(
        self, levels: Sequence[str] = (), *, queue: str = "", life_seconds: int = DEFAULT_LIFE_S
    ) -> values.Permission:
        """A token and signed URL with these levels (empty: all), for one queue or the account."""
        request = self._requests.create_permission(levels, queue, life_seconds)
        return request.read(await self._http.request(**_arguments(request)))
