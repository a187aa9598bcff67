"""The events that the service writes for its data pipeline, their fields with units, and the version of the schema.

Each event is one JSON line. `version`, `boot` and `sequence` identify it, `event` is its kind, and the other fields are
below. A field means the same in every event that has it. Fields with a default and events may be added; to change or
remove one raises the version. `cns_pipeline.schema` makes the Spark schema from this file.

    publish.accepted         a message is durable
    notification.matched     a part of a fan-out, or a replay, found the subscriptions that get the message
    delivery.filtered        filter policies kept the message from some subscriptions
    delivery.attempted       an attempt ended, with or without an answer of the endpoint
    delivery.delivered       the endpoint accepted the message
    delivery.dead_lettered   no attempt follows; the message is in the subscription's dead-letter queue
    notification.dropped     no attempt follows, and no dead-letter queue has the message
    requests.counted         how many API requests a process answered within the last minute
    queue.counted            how many messages of a queue a process handled within the last minute, and its depth
    message.*, queue.audited of queues with `Audit=on`: see `cns_common.events.audit_events`
    segment.opened           the first line of a segment: the process whose events follow
    segment.sealed           the last line: the numbers of the events, so that gaps between segments are known

How many deliveries a message is to have: `matched` of its `publish.accepted`, and of one `notification.matched` for
each `part`. A fan-out that is repeated after a crash writes its parts again: the latest of a part counts, by `at_ms`.
Drops without a subscription are not among the matched.
A message is delivered to a subscription once: more `delivery.delivered` of a (message_id, subscription) are duplicates,
except replays, which are marked.
"""

from __future__ import annotations

from typing import Literal, Protocol, get_args

import msgspec

from cns_common.events.audit_events import AuditEvent

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
    jobs: int  # 0: no subscription matched, or its commit delivered to all that did
    replayed: bool = False  # published again by `cns replay`
    matched: int = 0  # subscriptions that get it; 0 also where a fan-out finds them later

    @property
    def has_recipients(self) -> bool:
        """Whether anyone is to get it. An SMS that is dropped matches its number."""
        return bool(self.jobs or (self.topic and self.matched))


class NotificationMatched(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="notification.matched"
):
    """Written before the jobs are durable, so that a crash may repeat it."""

    at_ms: int
    message_id: str
    topic: str
    matched: int  # subscriptions; they may be 0
    part: str = ""  # of the fan-out: the subscription id after which it begins; of a replay: its id
    replayed: bool = False


class DeliveryFiltered(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="delivery.filtered"):
    """For each notification at its publish or the end of its fan-out; the last one counts, by `at_ms`, as the end of a
    fan-out may be repeated. For a topic with many filter policies only the number."""

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
    endpoint: str = ""  # in this and the events below: the name that its protocol gives it
    account: str = ""  # the publisher, in this and the events below; empty where there is a topic, whose ARN has it


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
    endpoint: str = ""
    account: str = ""
    size_bytes: int = 0  # of the body that was sent; 0: unknown


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
    endpoint: str = ""
    account: str = ""


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
    protocol: str = ""  # empty, as the endpoint, where the subscription is gone
    endpoint: str = ""
    account: str = ""


class RequestsCounted(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="requests.counted"):
    """Counts of one process from `since_ms` to `at_ms`. A process without any writes no row: the rows add up."""

    at_ms: int
    since_ms: int
    account: str  # of the caller; empty: not authenticated
    service: Literal["sns", "sqs", "sts"]
    operation: str  # Publish, SendMessageBatch, …; ?: unknown, or a request that was not read
    requests: int
    errors: int  # of these, answered with a status from 400 on
    request_bytes: int  # bodies
    response_bytes: int


class QueueCounted(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="queue.counted"):
    """The messages that one process handled of a queue from `since_ms` to `at_ms`; there is no event without any. The
    counters of all processes add up; a depth is that of the whole queue, so the latest counts.

    When nothing is under way: visible + in_flight + delayed = the sums of sent + moved_in - deleted - moved_out, less
    the messages that expired or were purged, which are not counted.
    """

    at_ms: int
    since_ms: int
    queue: str  # ARN
    sent: int  # messages, duplicates in a FIFO queue left out
    received: int  # messages handed out, each time
    deleted: int  # messages that were there
    moved_in: int = 0  # from a queue of which this is the dead-letter queue, or by a message move task
    moved_out: int = 0
    visible: int = -1  # at `at_ms`, as the figures below; -1: the queue could not be asked
    in_flight: int = -1
    delayed: int = -1
    oldest_age_s: int = -1  # of the message that is due first; -1 also for an empty queue


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
    stopped: bool = False  # its writer ended: no event of this boot follows


NotificationEvent = (
    PublishAccepted
    | NotificationMatched
    | DeliveryFiltered
    | DeliveryAttempted
    | DeliveryDelivered
    | DeliveryDeadLettered
    | NotificationDropped
)
"""Events about one notification: they have `message_id` and `topic`."""
CountEvent = RequestsCounted | QueueCounted
Event = NotificationEvent | CountEvent
SegmentFact = SegmentOpened | SegmentSealed

EVENTS: tuple[type[Event | AuditEvent | SegmentFact], ...] = (
    *get_args(Event),
    *get_args(AuditEvent),
    *get_args(SegmentFact),
)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The first fields of every line."""

    version: int
    boot: str  # random, for each start of a process
    sequence: int  # 1, 2, 3, … within a boot; 0 in the segment's own two lines


class EventSink(Protocol):
    """Takes events. `emit` never waits and never fails; it costs 1 to 2 µs."""

    def emit(self, event: Event) -> None: ...


class NoEvents(EventSink):
    """The sink of `CNS_EVENTS=off`."""

    def emit(self, event: Event) -> None:
        """Events are off."""
