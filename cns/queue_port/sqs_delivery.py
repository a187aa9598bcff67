"""Sends notifications to customers' queues through the queue service of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cns.queue_port.contract import QueueDelivery, QueueMessage, Refusal
from cns_common.errors import RequestError, StoreUnavailable
from cqs.engines.contract import RejectedEntry, SentEntry
from cqs.service import QueueService
from cqs.topic_sender import PreparedMessage, TopicMessage, TopicSender


class QueueDeliverer:
    """`enforced` is False under `--auth=off`: then queue policies do not count."""

    def __init__(self, service: QueueService, *, enforced: bool) -> None:
        self._sender = TopicSender(service)
        self._enforced = enforced

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        """Send the messages. Returns for each its id in the queue, or the refusal."""
        entries = [TopicMessage(send_message_members(message), message.trace_header) for message in messages]
        try:
            sent = await self._sender.send(queue_arn, entries, topic_arn=topic_arn, enforced=self._enforced)
        except RequestError as error:
            return [_refusal(error) for _ in messages]
        return [_refusal(each) if isinstance(each, RequestError) else each for each in sent]

    async def prepare(self, delivery: QueueDelivery, topic_arn: str, now_ms: int) -> PreparedMessage | None:
        """Check a message and its queue. Returns None if it cannot be sent now."""
        message, sender, arn = delivery.message, self._sender, delivery.queue_arn
        try:
            view = sender.known_queue(arn, topic_arn, now_ms, enforced=self._enforced)
            if view is None:
                view = await sender.queue(arn, topic_arn, enforced=self._enforced)
            return sender.prepare(view, TopicMessage(send_message_members(message), message.trace_header), now_ms)
        except (RequestError, StoreUnavailable):
            return None

    async def record(
        self, prepared: Sequence[PreparedMessage], answers: Sequence[SentEntry | RejectedEntry], now_ms: int
    ) -> None:
        """Count sent messages, and write the events of audited queues."""
        await self._sender.record(prepared, answers, now_ms)


def _refusal(error: RequestError) -> Refusal:
    return Refusal(error.code, error.message, permanent=True)


def send_message_members(message: QueueMessage) -> dict[str, Any]:
    """Members of SendMessage. For a standard queue MessageGroupId is the fairness group."""
    members: dict[str, Any] = {"MessageBody": message.body}
    if message.attributes:
        members["MessageAttributes"] = message.attributes
    if message.group:
        members["MessageGroupId"] = message.group
    if message.dedup:
        members["MessageDeduplicationId"] = message.dedup
    return members
