"""Notifications and confirmations as messages for SQS queues, own or remote."""

from __future__ import annotations

from cns.delivery.envelope import ConfirmationNotice, signed_confirmation
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Failed
from cns.limits import FIFO_SUFFIX
from cns.notification import Notification
from cns.queue_port.contract import QueueMessage, Refusal
from cns_workers.delivery.envelope_cache import EnvelopeCache

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
    ids = _ids(queue_arn, notification)
    trace = notification.trace_header
    if target.raw:
        text = notification.text_for(target.protocol)
        return QueueMessage(text, target.queue_attributes(notification), *ids, trace_header=trace)
    return QueueMessage(envelopes.body(target, notification).decode(), {}, *ids, trace_header=trace)


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
