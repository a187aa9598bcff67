"""Filter policies through boto3: both scopes, changes of a policy, and many subscriptions of which few match."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all

BODY = {"FilterPolicyScope": "MessageBody"}
RAW = {"RawMessageDelivery": "true"}
MANY = 200


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


@pytest.mark.spec("filter-body.nested", "filter-body.array-of-objects", "filter-body.object", "filter.structure")
def test_by_bodies(sqs: Any, topic: Topic, endpoint: Endpoint) -> None:
    queue = queue_for(sqs, topic.arn)
    wanted = policy(Records={"name": ["put"], "key": [{"suffix": ".jpg"}]}) | BODY | RAW
    topic.subscribe("sqs", arn_of(sqs, queue), **wanted)
    topic.subscribe("http", endpoint.url, **wanted)
    jpg = json.dumps({"Records": [{"name": "cut", "key": "1.png"}, {"name": "put", "key": "2.jpg"}]})
    mixed = json.dumps({"Records": [{"name": "cut", "key": "1.jpg"}, {"name": "put", "key": "2.png"}]})
    for text in ("plain text", mixed, jpg):
        topic.publish(text)
    assert receive_and_delete(sqs, queue, 1) == [jpg]
    assert endpoint.wait(received=1)["messages"][-1]["body"] == jpg
    topic.publish(json.dumps({"default": mixed, "http": jpg}), MessageStructure="json")
    topic.publish(json.dumps({"default": mixed, "sqs": jpg}), MessageStructure="json")
    assert endpoint.wait(received=2)["received"] == 2
    assert receive_and_delete(sqs, queue, 1) == [jpg]


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
        wait_until(lambda: publish() == expected, 15)

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


@pytest.mark.spec("filter-text.prefix", "filter-text.location")
def test_a_policy_that_is_none(topic: Topic, sqs: Any) -> None:
    with pytest.raises(ClientError) as caught:
        topic.subscribe("sqs", arn_of(sqs, queue_for(sqs)), FilterPolicy='{"key": [{"suffix": 100}]}')
    error = caught.value.response["Error"]
    assert error["Code"] == "InvalidParameter"
    assert error["Message"] == (
        "Invalid parameter: Attributes Reason: FilterPolicy: suffix match pattern must be a string\n"
        ' at [Source: (String)"{"key":[{"suffix":100}]}"; line: 1, column: 22]'
    )


@pytest.mark.extended
@pytest.mark.spec("filter.batch", "filter-limit.topic")
def test_many_subscriptions_of_which_few_match(service: Service, sqs: Any, topic: Topic) -> None:
    """As many subscriptions as AWS allows with a policy, all to queues; each message is for two of them."""
    queues = [queue_for(sqs, topic.arn) for _ in range(4)]
    arns = [arn_of(sqs, queue) for queue in queues]
    region, account = topic.arn.split(":")[3:5]
    for number in range(MANY):
        to = arns[number] if number < len(arns) else f"arn:aws:sqs:{region}:{account}:absent-{number}"
        topic.subscribe("sqs", to, **RAW, **policy(n=[number // 2]))
    with pytest.raises(topic.sns.exceptions.FilterPolicyLimitExceededException):
        topic.subscribe("sqs", f"arn:aws:sqs:{region}:{account}:one-more", **policy(n=[0]))
    before = service.metric("cns_notifications_filtered_out_total")
    entries = [
        {"Id": str(n), "Message": str(n), "MessageAttributes": {"n": {"DataType": "Number", "StringValue": str(n)}}}
        for n in (0, 1)
    ]
    answer = topic.sns.publish_batch(TopicArn=topic.arn, PublishBatchRequestEntries=entries)
    assert len(answer["Successful"]) == 2
    assert [bodies(sqs, queue, 1) for queue in queues] == [["0"], ["0"], ["1"], ["1"]]
    wait_until(lambda: service.metric("cns_notifications_filtered_out_total") - before >= 2 * (MANY - 2), 15)
