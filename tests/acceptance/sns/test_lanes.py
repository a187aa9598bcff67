"""Endpoints that are down, hang or are throttled: their messages wait in lanes, and delay no other endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all

MANY = 30
SENDS_AT_ONCE = 10
WORKERS_MAX = 2  # workers of the cluster form, each with that many sends at once
RETRIES_NEVER_SPENT = {"numRetries": 100, "minDelayTarget": 20, "maxDelayTarget": 20}


def policy(**members: object) -> dict[str, str]:
    return {"DeliveryPolicy": json.dumps(members)}


def aside(service: Service) -> float:
    return service.metric("cns_sends_deferred_total")


def down(service: Service, topic: Topic, endpoint: Endpoint, **attributes: str) -> list[str]:
    """Publishes to an endpoint that answers 503, until it is known to be down; the messages' ids."""
    endpoint.behave(status=503)
    topic.subscribe("http", endpoint.url, **attributes)
    opened, before = service.metric("cns_circuit_breakers_open"), aside(service)
    published = [topic.publish(str(n)) for n in range(MANY)]
    wait_until(lambda: service.metric("cns_circuit_breakers_open") > opened, lambda: "no breaker opens")
    wait_until(lambda: aside(service) > before, lambda: "nothing is put aside")
    return published


def test_a_dead_endpoint_gets_everything_once_it_is_back(service: Service, topic: Topic, endpoint: Endpoint) -> None:
    open_before = service.metric("cns_circuit_breakers_open")
    published = down(service, topic, endpoint, **policy(healthyRetryPolicy=RETRIES_NEVER_SPENT))
    tried = endpoint.look()["received"]
    assert tried < MANY
    endpoint.behave(status=200)

    def arrived() -> bool:
        service.advance(5)
        return len({record["message_id"] for record in endpoint.notifications() if record["status"] == 200}) == MANY

    wait_until(arrived, lambda: f"{len(endpoint.notifications())} attempts")
    accepted = [record["message_id"] for record in endpoint.notifications() if record["status"] == 200]
    assert sorted(accepted) == sorted(published), "each once"
    wait_until(lambda: service.metric("cns_circuit_breakers_open") <= open_before)


@pytest.mark.extended
def test_what_waited_for_an_hour_is_a_dead_letter(service: Service, sqs: Any, topic: Topic, endpoint: Endpoint) -> None:
    dead = queue_for(sqs, topic.arn)
    published = down(
        service,
        topic,
        endpoint,
        **policy(healthyRetryPolicy=RETRIES_NEVER_SPENT),
        **topic.dead_letters_to(arn_of(sqs, dead)),
    )
    service.advance(3_700)
    letters: list[str] = []

    def buried() -> bool:
        letters.extend(json.loads(message["Body"])["MessageId"] for message in receive_all(sqs, dead))
        service.advance(40)
        return len(set(letters)) == MANY

    wait_until(buried, lambda: f"{len(letters)} of {MANY}")
    assert sorted(set(letters)) == sorted(published)
    wait_until(lambda: service.metric("cns_notifications_dead_lettered_total", cause="deadline_while_open") > 0)


@pytest.mark.extended
def test_a_hanging_endpoint_keeps_nothing_from_another(
    service: Service, sns: Any, topic: Topic, receiver: str, endpoint: Endpoint
) -> None:
    hanging = Endpoint(receiver)
    hanging.behave(hang=True)
    topic.subscribe("http", hanging.url)
    topic.subscribe("http", endpoint.url)
    before = aside(service)
    for number in range(MANY):
        topic.publish(str(number))
    endpoint.wait(received=MANY)
    wait_until(lambda: aside(service) > before, lambda: "nothing is put aside")
    assert hanging.look()["received"] <= WORKERS_MAX * SENDS_AT_ONCE


@pytest.mark.spec("sns-policy-http.throttle")
@pytest.mark.parametrize("where", ["subscription", "topic"])
def test_a_throttled_subscription_keeps_its_pace(
    service: Service, topic: Topic, endpoint: Endpoint, where: str
) -> None:
    """The pace itself is tested by `tests/unit/workers/test_admission.py`, on a clock that the test sets."""
    throttle = {"maxReceivesPerSecond": 2}
    if where == "topic":
        topic.set("DeliveryPolicy", json.dumps({"http": {"defaultThrottlePolicy": throttle}}))
    topic.subscribe("http", endpoint.url, **({} if where == "topic" else policy(throttlePolicy=throttle)))
    before = aside(service)
    published = [topic.publish(str(n)) for n in range(8)]
    endpoint.wait(received=8)
    attempts = endpoint.notifications()
    assert sorted(attempt["message_id"] for attempt in attempts) == sorted(published), "each once"
    assert aside(service) > before, "what comes faster waits"
