"""A notification, or a confirmation, as the message that a queue is sent, wherever that queue is."""

from __future__ import annotations

from cns.delivery.envelope import Confirmation, signed_confirmation
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Failed
from cns.limits import FIFO_SUFFIX
from cns.notification import Notification
from cns.queue_port.contract import QueueMessage, Refusal
from workers.delivery.envelope_cache import Envelopes

CONFIRMATION_GROUP = "Subscription"
"""Of confirmations in FIFO queues."""
RAW_ATTRIBUTES_MAX = 10
"""SQS takes no more attributes; a raw delivery with more fails as the client's error (sns.md §8)."""


def objection_to(target: Target, notification: Notification) -> Failed | None:
    """Why no queue would take it, told without asking one."""
    count = len(notification.attributes)
    if not target.raw or target.protocol != "sqs" or count <= RAW_ATTRIBUTES_MAX:
        return None
    text = f"Number of message attributes [{count}] exceeds the maximum allowed [{RAW_ATTRIBUTES_MAX}]."
    return refused(Refusal("InvalidParameterValue", text, permanent=True), 0)


def refused(refusal: Refusal, dwell_ms: int) -> Failed:
    text = f"{refusal.code}: {refusal.text}"
    return Failed(Cause.QUEUE, text, dwell_ms, permanent=refusal.permanent, code=refusal.code)


def message_for(queue_arn: str, target: Target, notification: Notification, envelopes: Envelopes) -> QueueMessage:
    """From any thread. The endpoint's queue and that of its dead letters get the same."""
    ids = _ids(queue_arn, notification)
    trace = notification.trace_header
    if target.raw:
        text = notification.text_for(target.protocol)
        return QueueMessage(text, target.queue_attributes(notification), *ids, trace_header=trace)
    return QueueMessage(envelopes.body(target, notification).decode(), {}, *ids, trace_header=trace)


def confirmation_for(queue_arn: str, confirmation: Confirmation, envelopes: Envelopes, base_url: str) -> QueueMessage:
    body = signed_confirmation(confirmation, envelopes.rendering.signer, base_url).decode()
    if queue_arn.endswith(FIFO_SUFFIX):
        return QueueMessage(body, group=CONFIRMATION_GROUP, dedup=confirmation.id)
    return QueueMessage(body)


def _ids(queue_arn: str, notification: Notification) -> tuple[str, str]:
    """Group and deduplication id. A FIFO topic's mean nothing to a standard queue; a FIFO queue for the dead letters of
    a standard topic, where messages may have none, must not lose them for it."""
    group, dedup = notification.message_group_id, notification.message_deduplication_id
    if queue_arn.endswith(FIFO_SUFFIX):
        return group or notification.id, dedup or notification.id
    return ("", "") if notification.fifo else (group, "")
