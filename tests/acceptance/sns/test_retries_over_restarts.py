"""Retries of waiting messages after a restart of the service, and after a change of the delivery policy."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.ports import free_port
from lab.harness.running import Up, running, start
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, signature_is_good


def retries(count: int) -> dict[str, Any]:
    return {"healthyRetryPolicy": {"minDelayTarget": 20, "maxDelayTarget": 20, "numRetries": count}}


def topic_at(service: Up) -> Topic:
    sns = service.client("sns", tries=3)
    return Topic(sns, str(sns.create_topic(Name=f"t-{uuid.uuid4().hex}")["TopicArn"]))


def advance_until(service: Up, endpoint: Endpoint, attempts: int) -> list[dict[str, Any]]:
    def step() -> bool:
        service.advance(5)
        return len(endpoint.notifications()) >= attempts

    wait_until(step, lambda: f"{len(endpoint.notifications())} attempts came")
    return endpoint.notifications()


@pytest.mark.spec("sns-retry.same-bytes")
def test_retries_are_the_same_bytes_after_a_restart(tmp_path: Path, endpoint: Endpoint) -> None:
    """A body has nothing that depends on when it is sent: the signing key and all members are stored."""
    port = free_port()
    with running(tmp_path / "data", "--test-clock", port=port) as service:
        topic = topic_at(service)
        topic.subscribe("http", endpoint.url, DeliveryPolicy=json.dumps(retries(5)))
        endpoint.behave(status=503, times=2)
        topic.publish("same", Subject="s", MessageAttributes={"n": {"DataType": "Number", "StringValue": "1"}})
        wait_until(lambda: len(endpoint.notifications()) == 1)
    back = start(tmp_path / "data", "--test-clock", port=port)
    try:
        back.wait_ready()
        attempts = advance_until(back, endpoint, 3)
        assert [attempt["status"] for attempt in attempts] == [503, 503, 200]
        assert len({attempt["body"] for attempt in attempts}) == 1
        assert len({json.dumps(attempt["headers"], sort_keys=True) for attempt in attempts}) == 1
        assert signature_is_good(json.loads(attempts[-1]["body"]))
    finally:
        back.stop()


@pytest.mark.extended
@pytest.mark.spec("sns-policy-http.overrides", "sns-policy-http.inherits")
def test_a_policy_that_changes_while_a_message_waits_is_the_one_that_counts(tmp_path: Path, endpoint: Endpoint) -> None:
    """Earlier attempts count under the new policy, too: a message for which it has no further retry ends."""
    with running(tmp_path / "data", "--test-clock") as service:
        topic = topic_at(service)
        subscription = topic.subscribe("http", endpoint.url, DeliveryPolicy=json.dumps(retries(50)))
        endpoint.behave(status=503)
        topic.publish("waits")
        advance_until(service, endpoint, 2)
        own = {"defaultHealthyRetryPolicy": retries(3)["healthyRetryPolicy"], "disableSubscriptionOverrides": True}
        topic.set("DeliveryPolicy", json.dumps({"http": own}))

        def dropped() -> list[dict[str, Any]]:
            service.advance(5)
            return service.events("notification.dropped", subscription=subscription, cause="spent:status")

        wait_until(dropped, service.said)
        assert len(endpoint.notifications()) == 4
