"""SNS at some size: topics with more subscriptions than one job takes, messages larger than a job carries."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one

LARGE_BYTES = 200 * 1024


@pytest.mark.extended
def test_a_large_topic_reaches_everybody_once(
    service: Service, sqs: Any, topic: Topic, endpoint: Endpoint, new_name: Callable[[], str]
) -> None:
    prefix = new_name()
    queues = [queue_for(sqs, topic.arn, name=f"{prefix}-{n}") for n in range(100)]
    for queue in queues:
        topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    for n in range(150):
        topic.request_subscription("http", f"{endpoint.url}?tag={n}")
    endpoint.wait(confirmed=150)
    published = topic.publish("to all")
    came = [record for record in endpoint.wait(received=150)["messages"] if record["type"] == "Notification"]
    assert {record["message_id"] for record in came} == {published}
    assert len({record["subscription_arn"] for record in came}) == 150
    messages = [receive_one(sqs, queue)["Body"] for queue in queues]
    assert Counter(messages) == {"to all": 100}
    again = [message for queue in queues for message in receive_all(sqs, queue)]
    assert (again, endpoint.look()["received"]) == ([], 150)


def test_a_large_message_is_stored_once(service: Service, topic: Topic, endpoint: Endpoint, receiver: str) -> None:
    late = Endpoint(receiver)
    late.behave(status=500, times=1)
    topic.subscribe("http", late.url, RawMessageDelivery="true")  # it keeps the body after all others have it
    for n in range(150):
        topic.request_subscription("http", f"{endpoint.url}?tag={n}", RawMessageDelivery="true")
    endpoint.wait(confirmed=150)
    mark = uuid.uuid4().hex
    text = "x" * (LARGE_BYTES // 2) + mark + "x" * (LARGE_BYTES // 2)
    topic.publish(text)
    came = endpoint.wait(received=150)["messages"]
    assert {record["body"] for record in came if record["type"] == "Notification"} == {text}
    assert service.copies(mark) == 1
