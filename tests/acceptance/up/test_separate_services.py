"""CNS and CQS as two services with data of their own: notifications of one reach the queues of the other."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cns_pytest.http import fetch
from lab.harness.endpoints import Endpoint
from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one

KEY_ID = "AKIAAGREEDONBYBOTH00"
LEASE_S = 31
ROUNDS = 5


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """For what is started in the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CNS_QUEUE_PORT", "CNS_QUEUE_URL", "CNS_QUEUE_KEY_ID", "CNS_QUEUE_SECRET"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@contextmanager
def started(directory: Path, name: str, **variables: str) -> Iterator[Up]:
    with environment(**variables), running(directory / name, "--test-clock") as service:
        yield service


def apart_from(cqs: Up, secret: str) -> dict[str, str]:
    return {
        "CNS_QUEUE_PORT": "http",
        "CNS_QUEUE_URL": cqs.url,
        "CNS_QUEUE_KEY_ID": KEY_ID,
        "CNS_QUEUE_SECRET": secret,
    }


@pytest.fixture(scope="module")
def cqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("cqs")
    with started(directory, "data", CNS_QUEUE_KEY_ID=KEY_ID, CNS_QUEUE_SECRET="agreed") as service:
        yield service


@pytest.fixture(scope="module")
def cns(tmp_path_factory: pytest.TempPathFactory, cqs: Up) -> Iterator[Up]:
    with started(tmp_path_factory.mktemp("cns"), "data", **apart_from(cqs, "agreed")) as service:
        yield service


def topic_at(cns: Up) -> Topic:
    sns = cns.client("sns", tries=3)
    return Topic(sns, str(sns.create_topic(Name=f"t-{uuid.uuid4().hex}")["TopicArn"]))


def subscribe(topic: Topic, sqs: Any) -> str:
    """A queue of CQS's own account, which says that it wants the topic's messages."""
    queue = queue_for(sqs, topic.arn)
    assert topic.request_subscription("sqs", arn_of(sqs, queue)) == "pending confirmation"
    request = json.loads(receive_one(sqs, queue)["Body"])
    assert fetch(request["SubscribeURL"])[0] == 200
    return queue


def test_queues_and_endpoints_get_notifications(cns: Up, cqs: Up, endpoint: Endpoint) -> None:
    topic = topic_at(cns)
    sqs = cqs.client("sqs")
    queue = subscribe(topic, sqs)
    topic.subscribe("http", endpoint.url)
    published = topic.publish("hello")
    assert json.loads(receive_one(sqs, queue)["Body"])["MessageId"] == published
    endpoint.wait(received=1)
    wait_until(lambda: all(_calls(cqs)), lambda: str(_calls(cqs)))
    assert not any(_calls(cns))


def _calls(service: Up) -> list[float]:
    """How often each of these was called: a job is settled after its endpoint answered."""
    return [service.metric("cns_api_calls_total", operation=name) for name in ("Settle", "Deliver", "ReceiveMessage")]


def test_a_cqs_with_topics_of_its_own_keeps_them_apart(cns: Up, cqs: Up) -> None:
    """Its own worker must not take our jobs, whose subscriptions it does not know."""
    sqs = cqs.client("sqs")
    topics = [topic_at(cns), topic_at(cqs)]
    queues = [subscribe(topics[0], sqs), queue_for(sqs, topics[1].arn)]
    topics[1].subscribe("sqs", arn_of(sqs, queues[1]))
    for topic, queue in zip(topics, queues, strict=True):
        published = [topic.publish(str(number)) for number in range(ROUNDS)]
        arrived = [json.loads(message["Body"])["MessageId"] for message in receive_all(sqs, queue, ROUNDS)]
        assert sorted(arrived) == sorted(published)
    assert [service.metric("cns_notifications_dropped_total") for service in (cns, cqs)] == [0, 0]


def test_what_was_accepted_arrives_although_cqs_dies(cns: Up, cqs: Up) -> None:
    topic = topic_at(cns)
    sqs = cqs.client("sqs", tries=5)
    queue = subscribe(topic, sqs)
    accepted = [topic.publish(f"before {number}") for number in range(ROUNDS)]
    os.kill(cqs.pids()["api"], signal.SIGKILL)
    accepted += [topic.publish(f"during {number}") for number in range(ROUNDS)]  # they wait for the queue service
    wait_until(cqs.is_ready, cqs.said)
    accepted += [topic.publish(f"after {number}") for number in range(ROUNDS)]
    arrived: set[str] = set()

    def all_arrived() -> bool:
        cqs.advance(LEASE_S)  # ends the leases of jobs that were received before the kill
        arrived.update(json.loads(message["Body"])["MessageId"] for message in receive_all(sqs, queue))
        return arrived >= set(accepted)

    wait_until(all_arrived, lambda: f"{len(set(accepted) - arrived)} of {len(accepted)} are missing")


@pytest.mark.extended
def test_a_wrong_secret_is_said(tmp_path: Path, cqs: Up) -> None:
    with started(tmp_path, "cns", **apart_from(cqs, "another")) as cns:
        topic = topic_at(cns)
        with pytest.raises(ClientError) as refused:
            topic.request_subscription("http", "http://127.0.0.1:1/x")
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        wait_until(lambda: cns.health()["status"] == "red", cns.said)
        assert cns.health()["reasons"]
        assert "InvalidSignatureException" in cns.said()
