"""Notifications that an HTTP endpoint does not accept: retries by policy, dead letters, drops."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one
from tests.marks import extended

JITTER = 1.1
FOUR_PHASES = {
    "numRetries": 8,
    "numNoDelayRetries": 2,
    "numMinDelayRetries": 1,
    "numMaxDelayRetries": 2,
    "minDelayTarget": 100,
    "maxDelayTarget": 500,
    "backoffFunction": "linear",
}
FOUR_PHASES_DELAYS_S = [0, 0, 100, 100, 300, 500, 500, 500]
STEP_S = 10
TEST_S_MAX = 60
"""The test gives up after so many seconds, which the service's clock counts beside those that it is advanced by."""


def policy(**retries: object) -> dict[str, str]:
    """The attribute of a subscription."""
    healthy = {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 3, **retries}
    return {"DeliveryPolicy": json.dumps({"healthyRetryPolicy": healthy})}


def at_once(retries: int) -> dict[str, str]:
    return policy(numRetries=retries, numNoDelayRetries=retries)


def planned_delays_s(service: Service, subscription: str) -> list[float | None]:
    """The wait that the worker logged after each failed attempt; None after the last."""
    failures = service.events("delivery_attempt.failed", subscription=subscription)
    assert [failure["attempt"] for failure in failures] == list(range(1, len(failures) + 1))
    return [failure["retry_in_s"] for failure in failures]


def queues_of(service: Service, message_id: str) -> list[str]:
    """The internal queues that have jobs of the topic."""
    explanation = json.loads(service.cns("explain", message_id, "--json", check=False).stdout)
    return [location["queue"] for history in explanation["lives"] for location in history["places"]]


def advance_until_received(service: Service, endpoint: Endpoint, subscription: str, attempts: int) -> list[int]:
    """Advance the clock step by step. Returns by how many seconds it had been advanced when each attempt was seen.

    The clock stands while an attempt is due or under way: a jump would end the lease of its job, and repeat it."""
    seen_s: list[int] = []
    advanced_s = failed = next_s = 0

    def step() -> bool:
        nonlocal advanced_s, failed, next_s
        received = endpoint.look(n=0)["received"]
        seen_s.extend([advanced_s] * (received - len(seen_s)))
        if len(seen_s) >= attempts:
            return True
        failures = service.events("delivery_attempt.failed", subscription=subscription)
        if len(failures) > failed:
            failed = len(failures)
            next_s = advanced_s + math.ceil(failures[-1]["retry_in_s"]) + STEP_S
        if failed >= received and advanced_s < next_s:
            service.advance(STEP_S)
            advanced_s += STEP_S
        return False

    wait_until(step, lambda: f"attempts were seen at {seen_s}")
    return seen_s


@pytest.mark.spec(
    "sns-retry.phases",
    "sns-retry.immediate",
    "sns-retry.pre-backoff",
    "sns-retry.backoff",
    "sns-retry.post-backoff",
    "sns-answer.5xx",
)
@pytest.mark.parametrize(
    "backoff, delays_s",
    [("linear", FOUR_PHASES_DELAYS_S), *extended(("exponential", [0, 0, 100, 100, 207.6, 500, 500, 500]))],
)
def test_all_four_phases_in_order_then_delivered(
    service: Service, topic: Topic, endpoint: Endpoint, backoff: str, delays_s: list[float]
) -> None:
    failures = len(delays_s)
    endpoint.behave(status=500, times=failures)
    subscription = topic.subscribe("http", endpoint.url, **policy(**{**FOUR_PHASES, "backoffFunction": backoff}))
    published = topic.publish("again and again")
    seen_s = advance_until_received(service, endpoint, subscription, failures + 1)

    planned = planned_delays_s(service, subscription)
    assert len(planned) == failures
    for wait_s, delay_s in zip(planned, delays_s, strict=True):
        assert wait_s is not None
        assert delay_s - 0.1 <= wait_s <= delay_s * JITTER + 0.1
    due_s = [sum(delays_s[:retries]) for retries in range(failures + 1)]
    assert all(seen >= due - TEST_S_MAX for seen, due in zip(seen_s, due_s, strict=True)), (seen_s, due_s)
    attempts = endpoint.notifications()
    assert [attempt["status"] for attempt in attempts] == [500] * failures + [200]
    assert {attempt["message_id"] for attempt in attempts} == {published}


@pytest.mark.spec("sns-dead-letter.body", "sns-dead-letter.raw", "sns-dead-letter.per-subscription", "sns-answer.5xx")
@pytest.mark.parametrize("raw", ["false", "true"])
def test_the_dead_letter_queue_gets_what_was_to_be_delivered(
    sqs: Any, topic: Topic, endpoint: Endpoint, raw: str
) -> None:
    dead = queue_for(sqs, topic.arn)
    endpoint.behave(status=500)
    terms = {**at_once(2), **topic.dead_letters_to(arn_of(sqs, dead)), "RawMessageDelivery": raw}
    topic.subscribe("http", endpoint.url, **terms)
    attributes = {"colour": {"DataType": "String", "StringValue": "blue"}}
    topic.publish("undeliverable", Subject="s", MessageAttributes=attributes)
    letter = receive_one(sqs, dead)
    attempts = endpoint.notifications()
    assert [attempt["status"] for attempt in attempts] == [500] * 3
    assert {attempt["body"] for attempt in attempts} == {letter["Body"]}
    assert letter.get("MessageAttributes") == (attributes if raw == "true" else None)


@pytest.mark.spec("sns-answer.4xx", "sns-answer.3xx", "sns-answer.4xx-dead-letter")
@pytest.mark.parametrize("status", [400, 404, 302])
def test_what_the_endpoint_refuses_is_tried_once(sqs: Any, topic: Topic, endpoint: Endpoint, status: int) -> None:
    dead = queue_for(sqs, topic.arn)
    endpoint.behave(status=status)
    topic.subscribe("http", endpoint.url, **at_once(5), **topic.dead_letters_to(arn_of(sqs, dead)))
    published = topic.publish("refused")
    assert json.loads(receive_one(sqs, dead)["Body"])["MessageId"] == published
    assert [attempt["status"] for attempt in endpoint.notifications()] == [status]


@pytest.mark.spec("sns-dead-letter.none")
@pytest.mark.parametrize(
    "behaviour, cause",
    [({"status": 500}, "spent:status"), ({"status": 404}, "permanent:status"), ({"refuse": True}, "spent:connection")],
)
def test_without_a_dead_letter_queue_drops_are_counted_by_cause(
    service: Service, topic: Topic, endpoint: Endpoint, behaviour: dict[str, object], cause: str
) -> None:
    def dropped() -> float:
        return service.metric("cns_notifications_dropped_total", cause=cause)

    before = dropped()
    endpoint.behave(**behaviour)
    subscription = topic.subscribe("http", endpoint.url, **at_once(1))
    topic.publish("lost")
    wait_until(lambda: dropped() > before)
    assert service.events("notification.dropped", subscription=subscription, cause=cause)


@pytest.mark.spec("sns-dead-letter.policy")
def test_a_dead_letter_queue_that_refuses_is_a_cause_too(
    service: Service, sqs: Any, topic: Topic, endpoint: Endpoint
) -> None:
    closed = queue_for(sqs)
    endpoint.behave(status=404)
    subscription = topic.subscribe("http", endpoint.url, **topic.dead_letters_to(arn_of(sqs, closed)))
    topic.publish("lost")
    cause = "dead_letter_queue_refused:status"
    wait_until(lambda: service.events("notification.dropped", subscription=subscription, cause=cause))
    assert receive_all(sqs, closed) == []


def test_retry_after_is_respected(service: Service, topic: Topic, endpoint: Endpoint, receiver: str) -> None:
    def statuses() -> list[int]:
        return [attempt["status"] for attempt in endpoint.notifications() if attempt["message_id"] == published]

    endpoint.behave(status=503, retry_after="3000", times=1)
    subscription = topic.subscribe("http", endpoint.url, **policy(numRetries=1))
    published = topic.publish("wait")
    wait_until(lambda: planned_delays_s(service, subscription) == [3000])
    service.advance(2_900)
    later = Endpoint(receiver)
    later.behave(status=500, times=1)
    topic.subscribe("http", later.url, **at_once(1))
    topic.publish("by now the first would have been retried, but for Retry-After")
    later.wait(received=2)
    assert statuses() == [503]
    service.advance(101)
    wait_until(lambda: statuses() == [503, 200], lambda: str(statuses()))


@pytest.mark.spec("sns-retry.hour")
def test_no_retry_is_made_later_than_an_hour(service: Service, sqs: Any, topic: Topic, endpoint: Endpoint) -> None:
    dead = queue_for(sqs, topic.arn)
    endpoint.behave(status=503, retry_after="7200")
    terms = {**policy(numRetries=5), **topic.dead_letters_to(arn_of(sqs, dead))}
    subscription = topic.subscribe("http", endpoint.url, **terms)
    message_id = topic.publish("slow")
    wait_until(lambda: queues_of(service, message_id) == ["redelivery"])  # otherwise its lease would end
    service.advance(3_600)
    receive_one(sqs, dead)
    planned = planned_delays_s(service, subscription)
    assert planned == [pytest.approx(3_600, abs=5), None]


def test_one_failing_endpoint_holds_up_no_other(topic: Topic, receiver: str) -> None:
    good, bad = Endpoint(receiver), Endpoint(receiver)
    bad.behave(hang=True)
    for endpoint in (bad, good):
        topic.subscribe("http", endpoint.url)
    for n in range(20):
        topic.publish(str(n))
    good.wait(received=20, accepted=20)


@pytest.mark.extended
def test_a_subscription_deleted_between_retries_gets_no_more(
    service: Service, sns: Any, topic: Topic, endpoint: Endpoint
) -> None:
    endpoint.behave(status=500)
    subscription = topic.subscribe("http", endpoint.url, **policy(numRetries=10))
    topic.publish("x")
    wait_until(lambda: len(planned_delays_s(service, subscription)) == 1)
    sns.unsubscribe(SubscriptionArn=subscription)
    gone = service.metric("cns_notifications_dropped_total", cause="subscription_gone")
    service.advance(5)
    wait_until(lambda: service.metric("cns_notifications_dropped_total", cause="subscription_gone") > gone)
    assert endpoint.look()["received"] == 1
