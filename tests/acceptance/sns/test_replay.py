"""Archives and replays through boto3: from a start on, and live delivery behind them in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.sns.test_fifo import drained, fifo_queue, publish
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all

MONTH = '{"MessageRetentionPeriod":"30"}'
WINDOW_S = 301.0
"""How long a FIFO queue drops a message that it got before."""


class Received(NamedTuple):
    text: str
    replayed: bool


@pytest.fixture
def fifo(sns: Any, new_name: Any) -> Iterator[Topic]:
    attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "true", "ArchivePolicy": MONTH}
    yield from _archiving(sns, f"{new_name()}.fifo", attributes)


@pytest.fixture
def standard(sns: Any, new_name: Any) -> Iterator[Topic]:
    yield from _archiving(sns, new_name(), {"ArchivePolicy": MONTH})


def _archiving(sns: Any, name: str, attributes: dict[str, str]) -> Iterator[Topic]:
    topic = Topic(sns, sns.create_topic(Name=name, Attributes=attributes)["TopicArn"])
    yield topic
    topic.set("ArchivePolicy", "{}")
    sns.delete_topic(TopicArn=topic.arn)


def window(start: str, end: str = "") -> str:
    return json.dumps({"PointType": "Timestamp", "StartingPoint": start} | ({"EndingPoint": end} if end else {}))


def replay(topic: Topic, subscription: str, policy: str) -> None:
    topic.sns.set_subscription_attributes(
        SubscriptionArn=subscription, AttributeName="ReplayPolicy", AttributeValue=policy
    )


def shown(topic: Topic, subscription: str) -> dict[str, str]:
    attributes = topic.sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    return {name: text for name, text in attributes.items() if name.startswith("Replay")}


def becomes(topic: Topic, subscription: str, status: str) -> None:
    wait_until(lambda: shown(topic, subscription).get("ReplayStatus") == status)


def envelopes(sqs: Any, queue: str, n: int) -> list[dict[str, str]]:
    return [json.loads(message["Body"]) for message in drained(sqs, queue, n)]


def received(sqs: Any, queue: str, n: int) -> list[Received]:
    return [Received(each["Message"], each.get("Replayed") == "true") for each in envelopes(sqs, queue, n)]


def live(*texts: str) -> list[Received]:
    return [Received(text, False) for text in texts]


def replayed(*texts: str) -> list[Received]:
    return [Received(text, True) for text in texts]


def subscribed(sqs: Any, topic: Topic, **attributes: str) -> tuple[str, str]:
    """A new queue, and its subscription."""
    queue = fifo_queue(sqs)
    return queue, topic.subscribe("sqs", arn_of(sqs, queue), **attributes)


def beginning(topic: Topic) -> str:
    attributes = topic.sns.get_topic_attributes(TopicArn=topic.arn)["Attributes"]
    return str(attributes["BeginningArchiveTime"])


@pytest.mark.spec("replay.envelope", "replay.same-message", "replay.completed", "replay.policy", "archive.beginning")
def test_what_was_kept_comes_again(service: Service, sqs: Any, fifo: Topic) -> None:
    queue, subscription = subscribed(sqs, fifo)
    texts = [str(number) for number in range(12)]
    for text in texts:
        publish(fifo, text)
    first = envelopes(sqs, queue, 12)
    assert [each["Message"] for each in first] == texts
    service.advance(WINDOW_S)
    policy = window(beginning(fifo))
    replay(fifo, subscription, policy)
    assert json.loads(shown(fifo, subscription)["ReplayPolicy"]) == json.loads(policy)
    second = envelopes(sqs, queue, 12)
    assert ["Replayed" in each for each in first] == [False] * 12
    assert [{**each, "Replayed": "true"} for each in first] == second
    becomes(fifo, subscription, "Completed")


@pytest.mark.spec("replay.live")
def test_live_delivery_goes_on_behind_a_replay_in_order(service: Service, sqs: Any, fifo: Topic) -> None:
    """Messages published during the replay come once; how many of them are replayed does not matter."""
    queue, subscription = subscribed(sqs, fifo)
    before = [f"before {number}" for number in range(20)]
    for text in before:
        publish(fifo, text)
    assert received(sqs, queue, 20) == live(*before)
    service.advance(WINDOW_S)
    replay(fifo, subscription, window(beginning(fifo)))
    after = [f"after {number}" for number in range(20)]
    for text in after:
        publish(fifo, text)
    everything = received(sqs, queue, 40)
    assert [each.text for each in everything] == [*before, *after]
    replayed = [each.replayed for each in everything]
    assert replayed == sorted(replayed, reverse=True)
    becomes(fifo, subscription, "Completed")
    publish(fifo, "at last")
    assert received(sqs, queue, 1) == live("at last")
    assert receive_all(sqs, queue) == []


@pytest.mark.spec("replay.filter", "replay.at-subscribe")
def test_a_late_subscriber_begins_with_what_it_wants_of_it(sqs: Any, fifo: Topic) -> None:
    for number in range(6):
        attributes = {"even": {"DataType": "String", "StringValue": str(number % 2 == 0)}}
        publish(fifo, str(number), MessageAttributes=attributes)
    queue, _ = subscribed(sqs, fifo, FilterPolicy='{"even":["True"]}', ReplayPolicy=window(beginning(fifo)))
    assert received(sqs, queue, 3) == replayed("0", "2", "4")


@pytest.mark.spec("replay.deduplicated")
def test_what_a_queue_got_just_now_it_drops(sqs: Any, fifo: Topic) -> None:
    queue, subscription = subscribed(sqs, fifo)
    publish(fifo, "kept")
    assert received(sqs, queue, 1) == live("kept")
    replay(fifo, subscription, window(beginning(fifo)))
    becomes(fifo, subscription, "Completed")
    publish(fifo, "live")
    assert received(sqs, queue, 1) == live("live")


@pytest.mark.spec("archive.fifo-only", "replay.envelope")
def test_a_standard_topic_keeps_and_replays_too(sqs: Any, standard: Topic) -> None:
    queue = queue_for(sqs, standard.arn)
    subscription = standard.subscribe("sqs", arn_of(sqs, queue))
    texts = [str(number) for number in range(5)]
    for text in texts:
        standard.publish(text)
    assert sorted(received(sqs, queue, 5)) == live(*texts)
    replay(standard, subscription, window(beginning(standard)))
    assert sorted(received(sqs, queue, 5)) == replayed(*texts)
    becomes(standard, subscription, "Completed")
