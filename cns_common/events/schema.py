"""What the service tells its data pipeline: every event, its fields with their units, and the version of the schema.

One line a fact, in JSON: `version`, `boot` and `sequence` say which process's how many-eth event it is, `event` what
happened, the rest is below. A field means the same in every event that has it. Fields and events may be added, a field
with the value that lines without it are read with; to change or remove one raises the version. The Spark schema is made
from this file, by `cns_pipeline.schema`.

    publish.accepted         a message is durable, and its delivery the business of the queues
    delivery.filtered        filters kept it from some of the topic's subscriptions
    delivery.attempted       an endpoint was sent to, and answered or not
    delivery.delivered       it took the message
    delivery.dead_lettered   it did not, and the subscription's dead-letter queue did
    notification.dropped     nobody will: a subscription never gets this message
    segment.opened           the first line of a segment: whose events follow
    segment.sealed           the last: what it holds, so that a gap between two segments is known
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

SCHEMA_VERSION = 1

REASON_CHARS_MAX = 300
FIRST = "first"
UNPLANNED = "unplanned"
"""The phase of an attempt that the policy, as it is now, does not know: it was shortened since."""


class PublishAccepted(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="publish.accepted"):
    at_ms: int
    message_id: str
    topic: str  # ARN
    account: str  # the topic's owner
    size_bytes: int  # the message with its attributes, as the limit counts it
    has_subject: bool
    jobs: int  # 0: no subscription matched, and there is nothing to deliver


class DeliveryFiltered(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="delivery.filtered"):
    """Once for each notification, after it was accepted or fanned out; of a topic with many filters only the number."""

    at_ms: int
    message_id: str
    topic: str
    filtered: int  # subscriptions
    subscription_ids: tuple[str, ...]  # the first of them: the last parts of their ARNs
    filter_keys: tuple[str, ...]  # for each of these, the first key of its policy that was not met, or ''


class DeliveryAttempted(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="delivery.attempted"
):
    at_ms: int  # when the outcome was known
    message_id: str
    message_type: str  # Notification, SubscriptionConfirmation, UnsubscribeConfirmation
    topic: str
    subscription: str  # ARN
    protocol: str
    attempt: int  # 1 is the first
    phase: str  # first, one of the retry policy's four, or unplanned
    outcome: Literal["delivered", "failed"]
    cause: str  # of the failure: status, timeout, connection, …; empty when delivered
    status: int  # HTTP; 0 where there was no answer
    duration_ms: int
    reason: str = ""  # of the failure, in words: what the endpoint or the queue answered; at most REASON_CHARS_MAX


class DeliveryDelivered(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="delivery.delivered"):
    at_ms: int
    message_id: str
    message_type: str
    topic: str
    subscription: str
    protocol: str
    attempt: int
    since_publish_ms: int  # from the message's timestamp to `at_ms`


class DeliveryDeadLettered(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="delivery.dead_lettered"):
    at_ms: int
    message_id: str
    message_type: str
    topic: str
    subscription: str
    protocol: str
    attempt: int  # the last
    cause: str  # why no attempt follows, and of the last failure: spent:status, permanent:dns, …
    queue: str  # ARN
    since_publish_ms: int


class NotificationDropped(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="notification.dropped"):
    at_ms: int
    message_id: str
    message_type: str
    topic: str
    subscription: str  # empty: all that the topic has, or all that the cause is about
    attempt: int  # the last; 0: none was made
    cause: str  # as above, or subscription_gone, notification_lost, invalid_attributes, dead_letter_queue_refused:…
    subscriptions: int = 1  # how many; 0: as many as a publish job had still to come to, which nobody knows
    reason: str = ""  # in words, where no attempt has one: what the dead-letter queue answered


class SegmentOpened(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="segment.opened"):
    at_ms: int
    process: str
    first_sequence: int


class SegmentSealed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="segment.sealed"):
    """Sequence numbers from the first to the last that are in no line of the segment were never written: unknown."""

    at_ms: int
    process: str
    first_sequence: int
    last_sequence: int
    events: int
    torn_bytes: int  # of a last line that a crash cut off; what it said is unknown, not lost
    recovered: bool  # sealed by a later start, because its writer died


Event = (
    PublishAccepted
    | DeliveryFiltered
    | DeliveryAttempted
    | DeliveryDelivered
    | DeliveryDeadLettered
    | NotificationDropped
)
SegmentFact = SegmentOpened | SegmentSealed

EVENTS: tuple[type[Event | SegmentFact], ...] = (
    PublishAccepted,
    DeliveryFiltered,
    DeliveryAttempted,
    DeliveryDelivered,
    DeliveryDeadLettered,
    NotificationDropped,
    SegmentOpened,
    SegmentSealed,
)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The members that every line has before its event's own."""

    version: int
    boot: str  # random, one for each start of a process
    sequence: int  # 1, 2, 3, … within a boot; 0 in the segment's own two lines


class EventSink(Protocol):
    """Where facts go. To emit one never waits, never fails, and costs about a microsecond."""

    def emit(self, event: Event) -> None: ...


class NoEvents:
    """The sink of `CNS_EVENTS=off`."""

    def emit(self, event: Event) -> None:
        """Nobody wants to know."""
