"""The sums of the events of all kinds of traffic are those that the test kept itself.

`CNS_STORE=cassandra` runs it on the cluster form, whose processes write to directories of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import pytest

from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    DeliveryFiltered,
    Event,
    NotificationDropped,
    NotificationMatched,
    PublishAccepted,
    QueueCounted,
    RequestsCounted,
    SegmentSealed,
)
from tests.pipeline.conftest import TrafficData
from tests.pipeline.ledger import QueueUse, Requests, SubscriptionCounts

Kind = TypeVar("Kind", bound=msgspec.Struct)
NOTIFICATION = "Notification"

pytestmark = pytest.mark.slice  # the service, on a busy machine


@pytest.fixture(scope="module")
def events(served: TrafficData) -> list[Event]:
    decode = msgspec.json.Decoder(Event | SegmentSealed).decode
    lines = [line for path in served.segments() for line in path.read_bytes().splitlines()[1:]]
    return [event for event in map(decode, lines) if not isinstance(event, SegmentSealed)]


def of(events: list[Event], kind: type[Kind], **members: object) -> Iterator[Kind]:
    for event in events:
        if isinstance(event, kind) and all(getattr(event, name) == value for name, value in members.items()):
            yield event


def test_each_subscription(served: TrafficData, events: list[Event]) -> None:
    expected = {(each.topic, each.subscription): each for each in served.ledger.deliveries}
    found = {key: seen(events, each) for key, each in expected.items()}
    assert found == {key: replace(each, matched=0) for key, each in expected.items()}  # matches are known by topic only
    named = {(event.topic, event.subscription) for event in of(events, DeliveryAttempted, message_type=NOTIFICATION)}
    assert named <= expected.keys()


def seen(events: list[Event], expected: SubscriptionCounts) -> SubscriptionCounts:
    mine: dict[str, Any] = {"topic": expected.topic, "subscription": expected.subscription}
    mine["message_type"] = NOTIFICATION
    attempts = list(of(events, DeliveryAttempted, **mine, replayed=False))
    delivered = list(of(events, DeliveryDelivered, **mine))
    live = [event for event in delivered if not event.replayed]
    assert len({event.message_id for event in live}) == len(live), "delivered twice"
    replayed = [event for event in delivered if event.replayed]
    assert len(list(of(events, DeliveryAttempted, **mine, replayed=True))) == len(replayed)
    buried = list(of(events, DeliveryDeadLettered, **mine))
    ends: list[DeliveryAttempted | DeliveryDelivered | DeliveryDeadLettered] = [*attempts, *delivered, *buried]
    assert {event.protocol for event in ends} <= {expected.protocol}
    assert {event.endpoint for event in ends} <= {expected.endpoint}
    return SubscriptionCounts(
        topic=expected.topic,
        subscription=expected.subscription,
        protocol=expected.protocol,
        endpoint=expected.endpoint,
        attempts=len(attempts),
        attempts_failed=sum([event.outcome == "failed" for event in attempts]),
        delivered=len(live),
        dead_lettered=len(list(of(events, DeliveryDeadLettered, **mine))),
        dropped=len(list(of(events, NotificationDropped, **mine))),
        replayed=len(replayed),
        size_bytes=sum([event.size_bytes for event in delivered]),
    )


def test_each_topic(served: TrafficData, events: list[Event]) -> None:
    for topic, published in served.ledger.topics.items():
        accepted = list(of(events, PublishAccepted, topic=topic))
        assert len({event.message_id for event in accepted}) == published.accepted
        assert sum([event.size_bytes for event in accepted]) == published.accepted_bytes
        assert {event.account for event in accepted} <= {served.ledger.account}
        parts = {(event.message_id, event.part): event.matched for event in matches(events, topic, replayed=False)}
        assert sum(parts.values()) + sum([event.matched for event in accepted]) == served.ledger.matched(topic)
        replayed = {(event.message_id, event.part) for event in matches(events, topic, replayed=True)}
        assert len(replayed) == sum([each.replayed for each in served.ledger.deliveries if each.topic == topic])
        filtered = {event.message_id: event.filtered for event in of(events, DeliveryFiltered, topic=topic)}
        assert sum(filtered.values()) == published.filtered
        unnamed = of(events, NotificationDropped, topic=topic, subscription="") if topic else iter(())
        assert sum([event.subscriptions for event in unnamed]) == published.unanswerable


def matches(events: list[Event], topic: str, *, replayed: bool) -> Iterator[NotificationMatched]:
    return of(events, NotificationMatched, topic=topic, replayed=replayed)


def test_each_matched_notification_ends(served: TrafficData) -> None:
    """Nothing is pending: what was matched was delivered, dead-lettered or dropped."""
    ledger = served.ledger
    assert ledger.total("matched") == ledger.total("delivered", "dead_lettered", "dropped")


def test_failures_and_ends(served: TrafficData, events: list[Event]) -> None:
    failed = of(events, DeliveryAttempted, outcome="failed")
    assert Counter([(event.cause, event.status, event.phase) for event in failed]) == served.ledger.failures
    drops = of(events, NotificationDropped, message_type=NOTIFICATION)
    assert Counter([event.cause for event in drops]) == served.ledger.drops
    buried = of(events, DeliveryDeadLettered)
    assert Counter([(event.cause, event.queue) for event in buried]) == served.ledger.dead_letters
    ends = [
        *[("delivered", event.attempt) for event in of(events, DeliveryDelivered, message_type=NOTIFICATION)],
        *[("dead_lettered", event.attempt) for event in of(events, DeliveryDeadLettered)],
        *[("dropped", event.attempt) for event in of(events, NotificationDropped) if event.subscription],
    ]
    replays = Counter({("delivered", 1): served.ledger.total("replayed")})
    assert Counter(ends) == served.ledger.ended_after + replays


def test_a_direct_publish_names_its_account(served: TrafficData, events: list[Event]) -> None:
    direct = [event for event in events if isinstance(event, DeliveryAttempted | DeliveryDelivered)]
    assert {event.account for event in direct if not event.topic} == {served.ledger.account}
    assert {event.account for event in direct if event.topic} == {""}


def test_the_requests_of_the_account(served: TrafficData, events: list[Event]) -> None:
    found: dict[tuple[str, str], Requests] = {}
    for event in of(events, RequestsCounted, account=served.ledger.account):
        count = found.setdefault((event.service, event.operation), Requests())
        count.requests += event.requests
        count.errors += event.errors
        count.request_bytes += event.request_bytes
        count.response_bytes += event.response_bytes
    assert found == served.ledger.requests
    confirmed = list(of(events, RequestsCounted, operation="ConfirmSubscription"))
    assert {event.account for event in confirmed} == {""}
    assert sum([event.requests for event in confirmed]) == served.ledger.confirmations


def test_queues_reconcile(served: TrafficData, events: list[Event]) -> None:
    """Messages in less messages out equal the queues' contents and their last depth."""
    found: dict[str, QueueUse] = {}
    depths: dict[str, tuple[int, int, int]] = {}
    for event in sorted(of(events, QueueCounted), key=lambda event: event.at_ms):
        use = found.setdefault(event.queue, QueueUse())
        use.sent += event.sent
        use.received += event.received
        use.deleted += event.deleted
        use.moved_in += event.moved_in
        use.moved_out += event.moved_out
        depths[event.queue] = (event.visible, event.in_flight, event.delayed)
    used = {arn: use for arn, use in served.ledger.queues.items() if use != QueueUse()}
    assert found == used
    assert depths == {arn: depth for arn, depth in served.ledger.depths.items() if arn in used}
    assert {arn: sum(depth) for arn, depth in depths.items()} == {arn: use.depth for arn, use in used.items()}


def test_metrics_of_queues_reconcile(served: TrafficData) -> None:
    used = {arn: use for arn, use in served.ledger.queues.items() if use != QueueUse()}
    assert {arn: actions(served.samples, arn) for arn in used} == used


def actions(samples: Mapping[tuple[str, frozenset[str]], float], arn: str) -> QueueUse:
    totals: Counter[str] = Counter()
    for (name, labels), value in samples.items():
        if name == "cns_queue_messages_total" and f'queue="{arn}"' in labels:
            (action,) = [label.split('"')[1] for label in labels if label.startswith("action=")]
            totals[action] += int(value)
    del totals["received_again"]  # included in the number of received messages
    return QueueUse(**totals)
