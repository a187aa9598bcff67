"""Filter policies through boto3: by attributes, and changes of a policy."""

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


def bodies(sqs: Any, queue: str, n: int) -> list[str]:
    return sorted(message["Body"] for message in receive_all(sqs, queue, n))


@pytest.mark.spec("filter.keys-and", "filter.values-or", "filter-op.range", "filter-attribute.array", "filter.none")
def test_by_attributes(sqs: Any, topic: Topic) -> None:
    everything, shop = queue_for(sqs, topic.arn), queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, everything), **RAW)
    wanted = policy(
        store=["example_corp", {"prefix": "sub-"}],
        event=[{"anything-but": "order_cancelled"}],
        customer_interests=["rugby", "football"],
        price_usd=[{"numeric": [">=", 100, "<", 500]}],
    )
    topic.subscribe("sqs", arn_of(sqs, shop), **RAW, **wanted)
    order = {
        "store": string("example_corp"),
        "event": string("order_placed"),
        "customer_interests": {"DataType": "String.Array", "StringValue": '["soccer","rugby"]'},
        "price_usd": {"DataType": "Number", "StringValue": "210.75"},
    }
    changes: dict[str, dict[str, dict[str, str]]] = {
        "order": {},
        "subsidiary": {"store": string("sub-1")},
        "cancelled": {"event": string("order_cancelled")},
        "dear": {"price_usd": {"DataType": "Number", "StringValue": "500"}},
        "spelled": {"price_usd": string("210.75")},
        "other interests": {"customer_interests": {"DataType": "String.Array", "StringValue": '["soccer"]'}},
    }
    for text, change in changes.items():
        topic.publish(text, MessageAttributes=order | change)
    topic.publish("without")
    assert bodies(sqs, everything, 7) == sorted([*changes, "without"])
    assert bodies(sqs, shop, 2) == ["order", "subsidiary"]


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
