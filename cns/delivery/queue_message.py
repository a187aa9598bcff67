"""Notifications and confirmations as messages for SQS queues, own or remote."""

from __future__ import annotations

from cns.delivery.envelope import ConfirmationNotice, signed_confirmation
from cns.delivery.envelope_cache import EnvelopeCache
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Failed
from cns.limits import FIFO_SUFFIX
from cns.notification import Notification
from cns.queue_port.contract import QueueMessage, Refusal

CONFIRMATION_GROUP = "Subscription"
"""The message group of confirmations in FIFO queues."""
RAW_ATTRIBUTES_MAX = 10
"""SQS takes no more; a raw delivery with more fails as a client error."""


def size_error(target: Target, notification: Notification) -> Failed | None:
    """The failure of a delivery that no queue would take."""
    count = len(notification.attributes)
    if not target.raw or target.protocol != "sqs" or count <= RAW_ATTRIBUTES_MAX:
        return None
    text = f"Number of message attributes [{count}] exceeds the maximum allowed [{RAW_ATTRIBUTES_MAX}]."
    return failure_of(Refusal("InvalidParameterValue", text, permanent=True), 0)


def failure_of(refusal: Refusal, dwell_ms: int) -> Failed:
    text = f"{refusal.code}: {refusal.text}"
    return Failed(Cause.QUEUE, text, dwell_ms, permanent=refusal.permanent, code=refusal.code)


def message_for(queue_arn: str, target: Target, notification: Notification, envelopes: EnvelopeCache) -> QueueMessage:
    """Callable from any thread. The dead-letter queue gets the same message as the endpoint's queue."""
    if target.raw:
        return raw_message(queue_arn, target, notification)
    body = envelopes.body(target, notification).decode()
    return QueueMessage(body, {}, *_ids(queue_arn, notification), trace_header=notification.trace_header)


def raw_message(queue_arn: str, target: Target, notification: Notification) -> QueueMessage:
    text, attributes = notification.text_for(target.protocol), target.queue_attributes(notification)
    return QueueMessage(text, attributes, *_ids(queue_arn, notification), trace_header=notification.trace_header)


def confirmation_for(
    queue_arn: str, confirmation: ConfirmationNotice, envelopes: EnvelopeCache, base_url: str
) -> QueueMessage:
    body = signed_confirmation(confirmation, envelopes.context.signer, base_url).decode()
    if queue_arn.endswith(FIFO_SUFFIX):
        return QueueMessage(body, group=CONFIRMATION_GROUP, dedup=confirmation.id)
    return QueueMessage(body)


def _ids(queue_arn: str, notification: Notification) -> tuple[str, str]:
    """Message group and deduplication id.

    A standard queue gets none of a FIFO topic's. A FIFO queue for the dead letters of a standard topic gets the
    notification's id where the message has none, so that it takes every dead letter."""
    group, dedup = notification.message_group_id, notification.message_deduplication_id
    if queue_arn.endswith(FIFO_SUFFIX):
        return group or notification.id, dedup or notification.id
    return ("", "") if notification.fifo else (group, "")
