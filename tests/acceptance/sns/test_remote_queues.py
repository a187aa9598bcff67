"""Topics of one service that deliver to queues of another, by signed calls with a key of that service."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cns_pytest.http import fetch
from lab.harness.endpoints import Endpoint
from lab.harness.ports import free_port
from lab.harness.processes import keys_in
from lab.harness.running import Up, running, start
from lab.harness.service import REGION
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one

ROUNDS = 5


def account_in(client: Any) -> str:
    """The account for which a client makes queues."""
    return arn_of(client, queue_for(client)).split(":")[4]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("other") / "data") as service:
        yield service


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, other: Up) -> Iterator[Up]:
    """Knows of the other by its account, and has a stranger's key for the queues whose names begin with `denied`."""
    stranger = keys_in(other.cns("account", "create").stdout)
    own = {"key": other.environment["AWS_ACCESS_KEY_ID"], "secret": other.environment["AWS_SECRET_ACCESS_KEY"]}
    account = account_in(other.client("sqs"))
    mapping = tmp_path_factory.mktemp("mapping") / "queues.json"
    mapping.write_text(
        json.dumps(
            [
                {
                    "arns": f"arn:aws:sqs:*:{account}:{names}",
                    "url": other.url,
                    "key_id": k["key"],
                    "secret": k["secret"],
                }
                for names, k in (("denied*", stranger), ("*", own))
            ]
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CNS_REMOTE_QUEUES", str(mapping))
        with running(tmp_path_factory.mktemp("site") / "data", "--test-clock") as service:
            yield service


def topic_at(site: Up, suffix: str = "") -> Topic:
    sns = site.client("sns", tries=3)
    attributes = {"FifoTopic": "true"} if suffix else {}
    return Topic(sns, str(sns.create_topic(Name=f"t-{uuid.uuid4().hex}{suffix}", Attributes=attributes)["TopicArn"]))


def subscribe(topic: Topic, sqs: Any, queue: str, **terms: str) -> None:
    """As the queue's owner is asked: another account's must say that it wants the messages."""
    assert topic.request_subscription("sqs", arn_of(sqs, queue), **terms) == "pending confirmation"
    request = json.loads(receive_one(sqs, queue)["Body"])
    assert fetch(request["SubscribeURL"])[0] == 200


def fifo_queue(sqs: Any) -> str:
    name = f"{uuid.uuid4().hex[:12]}.fifo"
    return str(sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"])


def test_a_queue_of_another_service(site: Up, other: Up) -> None:
    topic, sqs = topic_at(site), other.client("sqs")
    queue = queue_for(sqs)
    subscribe(topic, sqs, queue)
    published = topic.publish("hello", Subject="s", MessageGroupId="tenant")
    message = receive_one(sqs, queue)
    envelope = json.loads(message["Body"])
    assert (envelope["MessageId"], envelope["Subject"]) == (published, "s")
    assert (message["Attributes"]["MessageGroupId"], "MessageAttributes" in message) == ("tenant", False)
    assert other.metric("cns_api_calls_total", operation="SendMessage") > 0


def test_raw_messages_keep_their_attributes(site: Up, other: Up) -> None:
    topic, sqs = topic_at(site), other.client("sqs")
    queue = queue_for(sqs)
    subscribe(topic, sqs, queue, RawMessageDelivery="true")
    attributes = {
        "text": {"DataType": "String.Array", "StringValue": '["a"]'},
        "number": {"DataType": "Number", "StringValue": "12.5"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    topic.publish("grüße", MessageAttributes=attributes)
    message = receive_one(sqs, queue)
    assert (message["Body"], message["MessageAttributes"]) == ("grüße", attributes)


def test_order_and_deduplication_reach_a_fifo_queue(site: Up, other: Up) -> None:
    topic, sqs = topic_at(site, ".fifo"), other.client("sqs")
    queue = fifo_queue(sqs)
    subscribe(topic, sqs, queue, RawMessageDelivery="true")
    for number in range(ROUNDS):
        topic.publish(str(number), MessageGroupId="g", MessageDeduplicationId=f"d{number}")
    bodies: list[str] = []

    def all_there() -> bool:
        for message in receive_all(sqs, queue):  # each message of the group arrives after the one before is deleted
            bodies.append(message["Body"])
            assert message["Attributes"]["MessageDeduplicationId"] == f"d{message['Body']}"
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return len(bodies) == ROUNDS

    wait_until(all_there, lambda: str(bodies))
    assert bodies == [str(number) for number in range(ROUNDS)]


@pytest.mark.parametrize("gone", ["denied", "missing"])
def test_what_it_refuses_is_not_tried_again(site: Up, other: Up, gone: str) -> None:
    topic, sqs = topic_at(site), other.client("sqs")
    name = f"{gone}-{uuid.uuid4().hex[:8]}"
    queue = queue_for(sqs, name=name)
    arn = arn_of(sqs, queue)
    if gone == "missing":
        sqs.delete_queue(QueueUrl=queue)
    before = refusals(site, gone)
    topic.request_subscription("sqs", arn)  # the confirmation is refused like any message
    wait_until(lambda: refusals(site, gone) > before, site.said)
    failed = site.events("delivery_attempt.failed", retry_in_s=None)[-1]
    assert (failed["cause"], failed["attempt"]) == ("queue", 1)


def refusals(site: Up, gone: str) -> int:
    code = {"denied": "AccessDenied", "missing": "QueueDoesNotExist"}[gone]
    return sum(code in event["text"] for event in site.events("delivery_attempt.failed", cause="queue"))


@pytest.mark.extended
def test_dead_letters_may_be_another_services(tmp_path: Path, other: Up, endpoint: Endpoint) -> None:
    """A dead-letter queue is in the account and region of its subscription, on either service."""
    sqs = other.client("sqs")
    keys = {"key_id": other.environment["AWS_ACCESS_KEY_ID"], "secret": other.environment["AWS_SECRET_ACCESS_KEY"]}
    theirs = account_in(sqs)
    with pytest.MonkeyPatch.context() as patch:
        mapping = [{"arns": f"arn:aws:sqs:{REGION}:{theirs}:*", "url": other.url, **keys}]
        patch.setenv("CNS_REMOTE_QUEUES", json.dumps(mapping))
        with running(tmp_path / "data", "--auth", "off") as service:
            sns = service.client("sns", key=theirs)
            topic = Topic(sns, str(sns.create_topic(Name="t")["TopicArn"]))
            dead = queue_for(sqs)
            endpoint.behave(status=400)
            topic.subscribe("http", endpoint.url, **topic.dead_letters_to(arn_of(sqs, dead)))
            published = topic.publish("refused")
            assert json.loads(receive_one(sqs, dead)["Body"])["MessageId"] == published


@pytest.mark.extended
def test_what_was_accepted_arrives_although_it_was_away(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        other = stack.enter_context(running(tmp_path / "other", port=port))
        sqs = other.client("sqs", tries=3)
        keys = {"key_id": other.environment["AWS_ACCESS_KEY_ID"], "secret": other.environment["AWS_SECRET_ACCESS_KEY"]}
        mapping = [{"arns": f"arn:aws:sqs:*:{account_in(sqs)}:*", "url": other.url, **keys}]
        patch.setenv("CNS_REMOTE_QUEUES", json.dumps(mapping))
        site = stack.enter_context(running(tmp_path / "site", "--test-clock"))
        topic, queue = topic_at(site), queue_for(sqs)
        subscribe(topic, sqs, queue)
        accepted = {topic.publish(f"before {number}") for number in range(ROUNDS)}
        kill(other)
        accepted |= {topic.publish(f"during {number}") for number in range(ROUNDS)}
        wait_until(lambda: site.events("delivery_attempt.failed", cause="connection"), site.said)
        back = start(tmp_path / "other", port=port)
        stack.callback(back.stop)
        back.wait_ready()
        arrived: set[str] = set()

        def all_arrived() -> bool:
            site.advance(20)
            arrived.update(json.loads(message["Body"])["MessageId"] for message in receive_all(sqs, queue))
            return arrived >= accepted

        wait_until(all_arrived, lambda: f"{len(accepted - arrived)} of {len(accepted)} are missing")
        assert site.metric("cns_notifications_dropped_total") == 0


def kill(service: Up) -> None:
    """Kill all its processes at once, as when a machine dies."""
    for pid in (service.process.pid, *service.pids().values()):
        os.kill(pid, signal.SIGKILL)
    service.process.wait()
