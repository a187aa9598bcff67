"""Makes the portal's list of a subscription's deliveries from the newest events about it: no I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cns.delivery.failure_causes import Why, why_failed
from cns.delivery.target import Target
from cns_common.events.recent_events import DeliveryEvent
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    NotificationDropped,
)
from cns_server.portal.past_messages import WantedMessage

ROWS_MAX = 50
Tone = Literal["good", "bad", "wait"]
NOTIFICATION = "Notification"


@dataclass(slots=True)
class DeliveryRow:
    """One message to the subscription, as far as the newest events tell of it."""

    message_id: str
    message_type: str
    at_ms: int = 0  # of the latest event
    began_ms: int = 0  # about when it was published
    state: str = "under way"
    tone: Tone = "wait"
    attempts: int = 0
    cause: str = ""  # of the last failure or of the end
    answer: str = ""  # the endpoint's last answer to a failed attempt
    duration_ms: int | None = None  # of the last attempt
    latency_ms: int | None = None  # from the publish to the delivery
    queue: str = ""  # ARN of the dead-letter queue
    is_over: bool = False  # no attempt follows, and it was not delivered

    @property
    def why(self) -> Why | None:
        return why_failed(self.cause, self.answer) if self.cause else None

    @property
    def may_be_retried(self) -> bool:
        """Whether it failed for good. Confirmations have tokens that end, so they are not sent again."""
        return self.is_over and self.message_type == NOTIFICATION

    def add(self, event: DeliveryEvent) -> None:
        self.at_ms = event.at_ms
        self.attempts = max(self.attempts, event.attempt)
        match event:
            case DeliveryAttempted():
                self._add_attempt(event)
            case DeliveryDelivered():
                self.state, self.tone, self.is_over, self.cause = "delivered", "good", False, ""
                self.latency_ms = None if event.replayed else event.since_publish_ms
            case DeliveryDeadLettered():
                self.state, self.tone, self.is_over, self.cause = "dead-lettered", "bad", True, event.cause
                self.queue = event.queue
                self.began_ms = event.at_ms - event.since_publish_ms
            case NotificationDropped():
                self.state, self.tone, self.is_over, self.cause = "given up", "bad", True, event.cause

    def _add_attempt(self, event: DeliveryAttempted) -> None:
        self.duration_ms = event.duration_ms
        self.began_ms = self.began_ms or event.at_ms - event.duration_ms
        if event.cause:
            self.state, self.tone, self.is_over = "failed, is tried again", "wait", False
            self.cause, self.answer = event.cause, event.reason


def rows_of(newest_first: Sequence[DeliveryEvent]) -> list[DeliveryRow]:
    """One row a message, the newest first."""
    rows: dict[str, DeliveryRow] = {}
    for event in reversed(newest_first):
        row = rows.get(event.message_id)
        if row is None:
            row = rows[event.message_id] = DeliveryRow(event.message_id, event.message_type)
        row.add(event)
    return sorted(rows.values(), key=lambda row: -row.at_ms)[:ROWS_MAX]


def retriable(rows: Iterable[DeliveryRow], *, archived: bool, in_queue: Container[str], read_whole: str) -> set[str]:
    """The messages that failed for good and can be sent again: the topic has an archive, or a dead-letter queue has or
    may have them. Of the queue `read_whole` it is known that `in_queue` are all."""
    failed = [row for row in rows if row.may_be_retried]
    return {
        row.message_id for row in failed if archived or row.message_id in in_queue or row.queue not in ("", read_whole)
    }


def wanted_again(target: Target, message_id: str, events: Sequence[DeliveryEvent]) -> WantedMessage | None:
    """The message to send again; None unless its delivery failed for good. Without events about it, which may be on
    other machines, it is wanted if the subscription's dead-letter queue has it."""
    for row in rows_of(events):
        if row.message_id == message_id:
            wanted = WantedMessage(target.arn, message_id, row.began_ms, row.queue)
            return wanted if row.may_be_retried else None
    return WantedMessage(target.arn, message_id, 0, target.dead_letter_arn) if target.dead_letter_arn else None
