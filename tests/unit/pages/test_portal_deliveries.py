"""The portal's rows about a message, made from the events about it."""

from __future__ import annotations

from msgspec.structs import replace

from cns.delivery.target import target_of
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns_common.events.recent_events import DeliveryEvent
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    NotificationDropped,
)
from cns_server.portal.deliveries import ROWS_MAX, rows_of, wanted_again

TOPIC = "arn:aws:sns:us-east-1:111111111111:t"
QUEUE = "arn:aws:sqs:us-east-1:111111111111:dead"
SUBSCRIPTION = Subscription(
    id="s",
    topic_arn=TOPIC,
    topic_id="t",
    owner="111111111111",
    principal="",
    protocol="http",
    endpoint="http://example.com",
    state=SubscriptionState.CONFIRMED,
    created_ms=1,
)
TARGET = target_of(SUBSCRIPTION, None)


def attempted(
    at_ms: int, attempt: int, cause: str = "", message: str = "m", kind: str = "Notification"
) -> DeliveryAttempted:
    return DeliveryAttempted(
        at_ms=at_ms,
        message_id=message,
        message_type=kind,
        topic=TOPIC,
        subscription=SUBSCRIPTION.arn,
        protocol="http",
        attempt=attempt,
        phase="first",
        outcome="failed" if cause else "delivered",
        cause=cause,
        status=0,
        duration_ms=7,
        reason="HTTP 500: no" if cause else "",
    )


def delivered(at_ms: int, attempt: int, *, replayed: bool = False) -> DeliveryDelivered:
    return DeliveryDelivered(
        at_ms=at_ms,
        message_id="m",
        message_type="Notification",
        topic=TOPIC,
        subscription=SUBSCRIPTION.arn,
        protocol="http",
        attempt=attempt,
        since_publish_ms=90,
        replayed=replayed,
    )


def dead(at_ms: int) -> DeliveryDeadLettered:
    return DeliveryDeadLettered(
        at_ms=at_ms,
        message_id="m",
        message_type="Notification",
        topic=TOPIC,
        subscription=SUBSCRIPTION.arn,
        protocol="http",
        attempt=2,
        cause="spent:status",
        queue=QUEUE,
        since_publish_ms=900,
    )


def dropped(at_ms: int, kind: str = "Notification") -> NotificationDropped:
    return NotificationDropped(
        at_ms=at_ms,
        message_id="m",
        message_type=kind,
        topic=TOPIC,
        subscription=SUBSCRIPTION.arn,
        attempt=1,
        cause="permanent:status",
    )


def newest_first(*events: DeliveryEvent) -> list[DeliveryEvent]:
    return sorted(events, key=lambda event: -event.at_ms)


def test_a_failure_that_is_tried_again_cannot_be_retried() -> None:
    (row,) = rows_of(newest_first(attempted(100, 1, "status")))
    assert (row.state, row.tone, row.attempts, row.answer) == ("failed, is tried again", "wait", 1, "HTTP 500: no")
    assert row.why is not None and row.why.title == "the endpoint answered with an error"
    assert not row.may_be_retried


def test_what_ended_badly_is_wanted_again_from_where_it_is() -> None:
    events = newest_first(attempted(1_000, 1, "status"), attempted(2_000, 2, "status"), dead(2_001))
    assert wanted_again(TARGET, "m", events) == (SUBSCRIPTION.arn, "m", 1_101, QUEUE)
    events = newest_first(attempted(1_000, 1, "status"), dropped(1_001))
    assert wanted_again(TARGET, "m", events) == (SUBSCRIPTION.arn, "m", 993, ""), "about when it was published"
    assert wanted_again(TARGET, "other", events) is None


def test_without_events_the_dead_letter_queue_is_asked() -> None:
    policy = {"RedrivePolicy": f'{{"deadLetterTargetArn":"{QUEUE}"}}'}
    target = target_of(replace(SUBSCRIPTION, attributes=policy), None)
    assert wanted_again(target, "other", newest_first(attempted(1_000, 1))) == (SUBSCRIPTION.arn, "other", 0, QUEUE)


def test_the_last_outcome_counts() -> None:
    events = newest_first(dead(2_000), attempted(3_000, 1), delivered(3_001, 1, replayed=True))
    (row,) = rows_of(events)
    assert (row.state, row.tone, row.latency_ms, row.why) == ("delivered", "good", None, None)
    assert wanted_again(TARGET, "m", events) is None


def test_a_confirmation_is_not_retried() -> None:
    assert wanted_again(TARGET, "m", newest_first(dropped(1_000, "SubscriptionConfirmation"))) is None


def test_the_newest_messages_are_shown() -> None:
    rows = rows_of(newest_first(*[attempted(n, 1, message=f"m{n}") for n in range(1, 2 * ROWS_MAX)]))
    assert [row.message_id for row in rows[:2]] == [f"m{2 * ROWS_MAX - 1}", f"m{2 * ROWS_MAX - 2}"]
    assert len(rows) == ROWS_MAX
