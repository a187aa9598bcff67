"""The schema of events: what a reader of another version may rely on."""

from __future__ import annotations

from typing import get_type_hints

import msgspec
import pytest

from cns.delivery.jobs import ConfirmationJob, EndpointJob
from cns.delivery.observers.contract import ObservedJob
from cns.delivery.observers.events import AttemptEvents, phase_of
from cns.delivery.retry_policy import RetryPolicy
from cns_common.events.schema import EVENTS, FIRST, SCHEMA_VERSION, UNPLANNED, NotificationDropped
from cns_common.metrics.catalogue import DROPPED
from cns_workers.stats import Stats
from tests.recorded_events import RecordedEvents

VERSION_1 = {
    "publish.accepted": "at_ms message_id topic account size_bytes has_subject jobs",
    "delivery.filtered": "at_ms message_id topic filtered subscription_ids filter_keys",
    "delivery.attempted": "at_ms message_id message_type topic subscription protocol attempt phase outcome cause status"
    " duration_ms",
    "delivery.delivered": "at_ms message_id message_type topic subscription protocol attempt since_publish_ms",
    "delivery.dead_lettered": "at_ms message_id message_type topic subscription protocol attempt cause queue"
    " since_publish_ms",
    "notification.dropped": "at_ms message_id message_type topic subscription attempt cause subscriptions",
    "notification.matched": "at_ms message_id topic matched part replayed",
    "requests.counted": "at_ms since_ms account service operation requests errors request_bytes response_bytes",
    "queue.counted": "at_ms since_ms queue sent received deleted moved_in moved_out visible in_flight delayed"
    " oldest_age_s",
    "message.sent": "at_ms queue message_id group size_bytes checksum sequence_number duplicate",
    "message.received": "at_ms queue message_id group receive_count checksum",
    "message.deleted": "at_ms queue message_id group",
    "message.ended": "at_ms queue message_id group cause",
    "queue.audited": "at_ms queue audit complete_from_ms",
    "segment.opened": "at_ms process first_sequence",
    "segment.sealed": "at_ms process first_sequence last_sequence events torn_bytes recovered",
}
TOPIC = "arn:aws:sns:us-east-1:111111111111:t"


def test_version_1_keeps_every_field_it_had() -> None:
    named = {str(event.__struct_config__.tag): set(event.__struct_fields__) for event in EVENTS}
    assert SCHEMA_VERSION == 1
    assert named.keys() == VERSION_1.keys()
    for name, fields in VERSION_1.items():
        assert set(fields.split()) <= named[name]


def test_a_field_has_one_type_in_all_events() -> None:
    types: dict[str, set[str]] = {}
    for event in EVENTS:
        for name, hint in get_type_hints(event).items():
            types.setdefault(name, set()).add(str(hint))
    assert {name: hints for name, hints in types.items() if len(hints) > 1} == {}


@pytest.mark.parametrize("event", EVENTS)
def test_numbers_of_time_and_size_say_their_unit(event: type[msgspec.Struct]) -> None:
    counts = {"jobs", "attempt", "status", "events", "first_sequence", "last_sequence", "filtered", "subscriptions"}
    counts |= {"matched", "requests", "errors", "sent", "received", "deleted", "moved_in", "moved_out"}
    counts |= {"visible", "in_flight", "delayed", "receive_count"}
    numbers = {name for name, hint in get_type_hints(event).items() if hint is int} - counts
    assert all(name.endswith(("_ms", "_s", "_bytes")) for name in numbers), numbers


POLICY = RetryPolicy(retries=5, no_delay=1, min_delay=1, max_delay=1, min_delay_s=1, max_delay_s=2)


@pytest.mark.parametrize(
    ("failures", "phase"),
    [
        (0, FIRST),
        (1, "immediate"),
        (2, "pre-backoff"),
        (3, "backoff"),
        (4, "backoff"),
        (5, "post-backoff"),
        (6, UNPLANNED),
    ],
)
def test_the_phase_of_an_attempt(failures: int, phase: str) -> None:
    assert phase_of(POLICY, failures) == phase


@pytest.mark.parametrize(
    ("job", "message_id", "message_type"),
    [
        (EndpointJob("m", TOPIC, ("s",)), "m", "Notification"),
        (
            ConfirmationJob("SubscriptionConfirmation", "c", "s", TOPIC, "token", 1, "http://localhost"),
            "c",
            "SubscriptionConfirmation",
        ),
    ],
)
def test_a_drop_without_an_attempt(job: EndpointJob | ConfirmationJob, message_id: str, message_type: str) -> None:
    sink, stats = RecordedEvents(), Stats()
    for observer in (stats, AttemptEvents(sink)):
        observer.dropped(ObservedJob(job, 2), "s", None, "subscription_gone", "", 1)
    (dropped,) = sink.events
    assert isinstance(dropped, NotificationDropped)
    assert (dropped.message_id, dropped.message_type, dropped.attempt) == (message_id, message_type, 2)
    assert [(sample.name, sample.value) for sample in stats.samples() if sample.value] == [(DROPPED.name, 1)]
