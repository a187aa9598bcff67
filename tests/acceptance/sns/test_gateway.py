"""Deliveries to a gateway: the requests that it gets, and the effect of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_one


@pytest.fixture(scope="module")
def gateway(receiver: str) -> Endpoint:
    return Endpoint(receiver)


@pytest.fixture(scope="module")
def handing_over(tmp_path_factory: pytest.TempPathFactory, gateway: Endpoint) -> Iterator[Up]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CNS_GATEWAY_URL", gateway.url)
        with running(tmp_path_factory.mktemp("gateway") / "data", "--test-clock") as started:
            yield started


def posted(gateway: Endpoint, destination: str) -> list[dict[str, Any]]:
    """The attempts at one destination."""
    records = gateway.look()["messages"]
    return [record for record in records if json.loads(record["body"])["destination"] == destination]


def test_it_is_posted_what_the_outbox_would_keep(handing_over: Up, gateway: Endpoint) -> None:
    sns = handing_over.client("sns")
    topic = Topic(sns, sns.create_topic(Name="posted")["TopicArn"])
    subscription = topic.subscribe("sms", "+15550000001")
    published = topic.publish("hello")
    wait_until(lambda: bool(posted(gateway, "+15550000001")))
    (attempt,) = posted(gateway, "+15550000001")
    document = json.loads(attempt["body"])
    assert (
        document
        | {
            "protocol": "sms",
            "topic_arn": topic.arn,
            "subscription_arn": subscription,
            "message_id": published,
            "message": "hello",
            "body": "hello",
        }
        == document
    )
    assert attempt["headers"]["x-cns-delivery-id"] == document["id"]
    assert attempt["headers"]["content-type"] == "application/json"
    assert handing_over.cns("outbox", "list").stdout == ""


def test_what_it_does_not_take_is_tried_again(handing_over: Up, gateway: Endpoint) -> None:
    gateway.behave(status=503, times=2)
    handing_over.client("sns").publish(PhoneNumber="+15550000002", Message="again")

    def step() -> bool:
        handing_over.advance(5)
        return len(posted(gateway, "+15550000002")) == 3

    wait_until(step, lambda: str(posted(gateway, "+15550000002")))
    attempts = posted(gateway, "+15550000002")
    assert [attempt["status"] for attempt in attempts] == [503, 503, 200]
    assert len({attempt["body"] for attempt in attempts}) == 1
    failures = handing_over.events("delivery_attempt.failed", subscription="")
    assert [round(failure["retry_in_s"]) in (10, 11) for failure in failures] == [True, True]


def test_what_it_refuses_is_a_dead_letter(handing_over: Up, gateway: Endpoint) -> None:
    sns, sqs = handing_over.client("sns"), handing_over.client("sqs")
    topic = Topic(sns, sns.create_topic(Name="refused")["TopicArn"])
    dead = queue_for(sqs, topic.arn)
    topic.subscribe("sms", "+15550000003", **topic.dead_letters_to(arn_of(sqs, dead)))
    gateway.behave(status=400)
    topic.publish("refused")
    assert json.loads(receive_one(sqs, dead)["Body"])["Message"] == "refused"
    assert len(posted(gateway, "+15550000003")) == 1
    gateway.behave(status=200)
