"""The events that the service writes for its data pipeline, their fields with units, and the version of the schema.

Each event is one JSON line. `version`, `boot` and `sequence` identify it, `event` is its kind, and the other fields are
below. A field means the same in every event that has it. Fields with a default and events may be added; to change or
remove one raises the version. `cns_pipeline.schema` makes the Spark schema from this file.

    publish.accepted         a message is durable
    delivery.filtered        filter policies kept the message from some subscriptions
    delivery.attempted       an attempt ended, with or without an answer of the endpoint
    delivery.delivered       the endpoint accepted the message
    delivery.dead_lettered   no attempt follows; the message is in the subscription's dead-letter queue
    notification.dropped     no attempt follows, and no dead-letter queue has the message
    segment.opened           the first line of a segment: the process whose events follow
    segment.sealed           the last line: the numbers of the events, so that gaps between segments are known
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

SCHEMA_VERSION = 1

REASON_CHARS_MAX = 300
FIRST = "first"
UNPLANNED = "unplanned"
"""The phase of an attempt beyond the present retry policy, which was shortened since."""


class PublishAccepted(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="publish.accepted"):
    at_ms: int
    message_id: str
    topic: str  # ARN
    account: str  # the topic's owner
    size_bytes: int  # the message with its attributes, as the limit counts it
    has_subject: bool
    jobs: int  # 0: no subscription matched


class DeliveryFiltered(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="delivery.filtered"):
    """Once for each notification, at its publish or fan-out. For a topic with many filter policies only the number."""

    at_ms: int
    message_id: str
    topic: str
    filtered: int  # subscriptions
    subscription_ids: tuple[str, ...]  # of the first ones: the last part of the ARN
    filter_keys: tuple[str, ...]  # for each of these the first unmet key of its policy, or ''


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
    status: int  # HTTP; 0 without an answer
    duration_ms: int
    reason: str = ""  # the answer of the endpoint or queue in words, at most REASON_CHARS_MAX
    replayed: bool = False  # by a replay of the topic's archive, in this and the events below


class DeliveryDelivered(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="delivery.delivered"
):
    at_ms: int
    message_id: str
    message_type: str
    topic: str
    subscription: str
    protocol: str
    attempt: int
    since_publish_ms: int  # from the message's timestamp to `at_ms`
    replayed: bool = False


class DeliveryDeadLettered(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="delivery.dead_lettered"
):
    at_ms: int
    message_id: str
    message_type: str
    topic: str
    subscription: str
    protocol: str
    attempt: int  # the last
    cause: str  # why no attempt follows: spent:status, permanent:dns, …
    queue: str  # ARN
    since_publish_ms: int
    replayed: bool = False


class NotificationDropped(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="notification.dropped"):
    at_ms: int
    message_id: str
    message_type: str
    topic: str
    subscription: str  # ARN; empty: several of the topic, see `subscriptions`
    attempt: int  # the last; 0: none
    cause: str  # as above, or subscription_gone, notification_lost, invalid_attributes, dead_letter_queue_refused:…
    subscriptions: int = 1  # 0: all that the fan-out had not reached, an unknown number
    reason: str = ""  # the answer of the dead-letter queue, where it refused
    replayed: bool = False


class SegmentOpened(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="segment.opened"):
    at_ms: int
    process: str
    first_sequence: int


class SegmentSealed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="segment.sealed"):
    """Numbers from the first to the last without a line were never written: those events are unknown."""

    at_ms: int
    process: str
    first_sequence: int
    last_sequence: int
    events: int
    torn_bytes: int  # of a last line that a crash cut off
    recovered: bool  # sealed by another process, as its writer died


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
    """The first fields of every line."""

    version: int
    boot: str  # random, for each start of a process
    sequence: int  # 1, 2, 3, … within a boot; 0 in the segment's own two lines


class EventSink(Protocol):
    """Takes events. `emit` never waits and never fails; it costs 1 to 2 µs."""

    def emit(self, event: Event) -> None: ...


class NoEvents:
    """The sink of `CNS_EVENTS=off`."""

    def emit(self, event: Event) -> None:
        """Events are off."""
