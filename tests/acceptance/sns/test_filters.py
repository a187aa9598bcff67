"""Changes of a filter policy through boto3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all

RAW = {"RawMessageDelivery": "true"}


def string(text: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": text}


def policy(**conditions: object) -> dict[str, str]:
    return {"FilterPolicy": json.dumps(conditions)}


def set_policy(topic: Topic, subscription: str, text: str) -> None:
    topic.sns.set_subscription_attributes(
        SubscriptionArn=subscription, AttributeName="FilterPolicy", AttributeValue=text
    )


@pytest.mark.spec("filter.changed", "filter.removed", "filter.compact", "filter.scope-change", "filter.scope-shown")
def test_changing_a_filter(sqs: Any, topic: Topic) -> None:
    """A change is in effect soon: API and workers may be several processes."""
    queue, everything = queue_for(sqs, topic.arn), queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, everything), **RAW)
    arn = topic.subscribe("sqs", arn_of(sqs, queue), **RAW, **policy(colour=["red"]))

    def shown() -> tuple[str | None, str | None]:
        attributes = topic.sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
        return attributes.get("FilterPolicy"), attributes.get("FilterPolicyScope")

    def publish() -> list[str]:
        """One message of each colour, and those of them that the filter let pass."""
        for colour in ("red", "blue", "green"):
            topic.publish(json.dumps({"colour": colour}), MessageAttributes={"colour": string(colour)})
        receive_and_delete(sqs, everything, 3)
        return sorted(json.loads(body)["colour"] for body in receive_and_delete(sqs, queue, 0))

    def settles(expected: list[str]) -> None:
        wait_until(lambda: publish() == expected)

    assert shown() == ('{"colour":["red"]}', "MessageAttributes")
    settles(["red"])
    set_policy(topic, arn, '{ "colour": ["blue"] }')
    assert shown() == ('{"colour":["blue"]}', "MessageAttributes")
    settles(["blue"])
    topic.sns.set_subscription_attributes(
        SubscriptionArn=arn, AttributeName="FilterPolicyScope", AttributeValue="MessageBody"
    )
    set_policy(topic, arn, '{"colour":["red","green"]}')
    settles(["green", "red"])
    set_policy(topic, arn, "{}")
    assert shown() == (None, None)
    settles(["blue", "green", "red"])
    set_policy(topic, arn, '{"colour":["green"]}')
    settles(["green"])


def receive_and_delete(sqs: Any, queue: str, at_least: int) -> list[str]:
    messages = receive_all(sqs, queue, at_least)
    for message in messages:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return [message["Body"] for message in messages]
