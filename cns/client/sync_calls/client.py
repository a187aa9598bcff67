# Generated from cns/client/async_calls by `make format`: change it there.
"""The client of the REST API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cns.client import values
from cns.client.requests import DEFAULT_LIFE_S, MessageAttributes
from cns.client.sync_calls.administration import AdministrationCalls
from cns.client.sync_calls.dead_letters import DeadLetterCalls
from cns.client.sync_calls.deliveries import DeliveryCalls

_NONE: Mapping[str, str] = {}
_NO_ATTRIBUTES: MessageAttributes = {}


class Client(AdministrationCalls, DeliveryCalls, DeadLetterCalls):
    """Each method sends one request; a refusal raises ApiError."""

    def list_queues(self, prefix: str = "", after: str = "", *, definitions: bool = False) -> values.QueueNames:
        """The names of the account's queues, a page at a time, and their definitions if asked for."""
        return self._send(self._requests.list_queues(prefix, after, definitions=definitions))

    def create_queue(
        self, name: str, attributes: Mapping[str, str] = _NONE, tags: Mapping[str, str] = _NONE
    ) -> values.QueueDefinition:
        """Create a queue, or find the one with these attributes."""
        return self._send(self._requests.create_queue(name, attributes, tags))

    def show_queue(self, queue: str) -> values.QueueDefinition:
        """The queue with all its attributes."""
        return self._send(self._requests.show_queue(queue))

    def change_queue(self, queue: str, attributes: Mapping[str, str]) -> values.QueueDefinition:
        """Set attributes."""
        return self._send(self._requests.change_queue(queue, attributes))

    def delete_queue(self, queue: str) -> None:
        """Delete the queue and its messages."""
        self._send_optional(self._requests.delete_queue(queue))

    def purge_queue(self, queue: str) -> None:
        """Delete all messages of the queue."""
        self._send_optional(self._requests.purge_queue(queue))

    def queue_statistics(self, queue: str, *, by_hour: bool = False) -> values.Statistics:
        """Counts of the messages that wait, are leased, are delayed; on the engine pipes what was pushed and popped."""
        return self._send(self._requests.queue_statistics(queue, by_hour=by_hour))

    def put_message(
        self,
        queue: str,
        text: str,
        *,
        attributes: MessageAttributes = _NO_ATTRIBUTES,
        delay_seconds: int | None = None,
        group_id: str | None = None,
        deduplication_id: str | None = None,
    ) -> values.SentMessage:
        """Put a message at the tail of the queue. An attribute is `{"dataType": …, "stringValue": …}`."""
        request = self._requests.put_message(queue, text, attributes, delay_seconds, group_id, deduplication_id)
        return self._send(request)

    def next_message(
        self, queue: str, *, lease_seconds: int | None = None, wait_seconds: int | None = None
    ) -> values.ReceivedMessage | None:
        """Lease the next message; None if there is none."""
        return self._send_optional(self._requests.next_message(queue, lease_seconds, wait_seconds))

    def update_message(
        self, queue: str, pop_receipt: str, *, text: str | None = None, lease_seconds: int | None = None
    ) -> None:
        """Replace the contents of a leased message, renew its lease, or both."""
        self._send_optional(self._requests.update_message(queue, pop_receipt, text, lease_seconds))

    def acknowledge_message(self, queue: str, pop_receipt: str) -> None:
        """Delete a leased message. ApiError `LeaseExpired` if another delivery has it."""
        self._send_optional(self._requests.acknowledge_message(queue, pop_receipt))

    def browse_messages(self, queue: str, *, after: str = "", limit: int = 10) -> values.BrowsedMessages:
        """Look at messages without leasing them."""
        return self._send(self._requests.browse_messages(queue, after, limit))

    def list_topics(self, after: str = "") -> values.Topics:
        """The ARNs of the account's topics, a page at a time."""
        return self._send(self._requests.list_topics(after))

    def create_topic(self, name: str, attributes: Mapping[str, str] = _NONE) -> values.TopicDefinition:
        """Create a topic, or find the one with these attributes."""
        return self._send(self._requests.create_topic(name, attributes))

    def show_topic(self, topic: str) -> values.TopicDefinition:
        """The topic with its attributes."""
        return self._send(self._requests.show_topic(topic))

    def change_topic(self, topic: str, attributes: Mapping[str, str]) -> values.TopicDefinition:
        """Set attributes."""
        return self._send(self._requests.change_topic(topic, attributes))

    def delete_topic(self, topic: str) -> None:
        """Delete the topic and its subscriptions."""
        self._send_optional(self._requests.delete_topic(topic))

    def publish_message(
        self,
        topic: str,
        message: str,
        *,
        attributes: MessageAttributes = _NO_ATTRIBUTES,
        subject: str | None = None,
        group_id: str | None = None,
        deduplication_id: str | None = None,
    ) -> values.PublishedMessage:
        """Publish a message to all subscriptions. An attribute is `{"dataType": …, "stringValue": …}`."""
        request = self._requests.publish_message(topic, message, attributes, subject, group_id, deduplication_id)
        return self._send(request)

    def subscribe(
        self, topic: str, protocol: str, endpoint: str, attributes: Mapping[str, str] = _NONE
    ) -> values.SubscriptionArn:
        """Subscribe an endpoint."""
        return self._send(self._requests.subscribe(topic, protocol, endpoint, attributes))

    def list_subscriptions(self, after: str = "") -> values.Subscriptions:
        """The subscriptions of all topics of the account, a page at a time."""
        return self._send(self._requests.list_subscriptions(after))

    def list_topic_subscriptions(self, topic: str, after: str = "") -> values.Subscriptions:
        """The topic's subscriptions, a page at a time."""
        return self._send(self._requests.list_topic_subscriptions(topic, after))

    def create_permission(
        self, levels: Sequence[str] = (), *, queue: str = "", life_seconds: int = DEFAULT_LIFE_S
    ) -> values.Permission:
        """A token and signed URL with these levels (empty: all), for one queue or the account."""
        return self._send(self._requests.create_permission(levels, queue, life_seconds))
