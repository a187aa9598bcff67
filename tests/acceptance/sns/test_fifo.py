"""FIFO topics through boto3: duplicates, sequence numbers, and an order that fan-out, filters and retries keep."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.harness.service import Service
from tests.acceptance.topics import Topic, arn_of, receive_all, receive_one

WINDOW_S = 300


@pytest.fixture
def fifo(sns: Any) -> Iterator[Topic]:
    yield from _topic(sns)


@pytest.fixture
def by_content(sns: Any) -> Iterator[Topic]:
    yield from _topic(sns, ContentBasedDeduplication="true")


def _topic(sns: Any, **attributes: str) -> Iterator[Topic]:
    name = f"t-{uuid.uuid4().hex[:12]}.fifo"
    arn = sns.create_topic(Name=name, Attributes={"FifoTopic": "true", **attributes})["TopicArn"]
    yield Topic(sns, arn)
    sns.delete_topic(TopicArn=arn)


def fifo_queue(sqs: Any, *, open_to: str = "arn:aws:sns:*:*:*", fifo: bool = True) -> str:
    allow = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": "*",
        "Condition": {"ArnLike": {"aws:SourceArn": open_to}},
    }
    attributes = {"Policy": json.dumps({"Statement": [allow]})} | ({"FifoQueue": "true"} if fifo else {})
    name = f"q-{uuid.uuid4().hex[:12]}" + (".fifo" if fifo else "")
    return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def drained(sqs: Any, queue: str, n: int) -> list[dict[str, Any]]:
    """`n` messages in the order they are given out, each deleted so that its group goes on."""
    messages: list[dict[str, Any]] = []
    while len(messages) < n:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20, AttributeNames=["All"])
        assert answer.get("Messages"), f"only {len(messages)} came"
        for message in answer["Messages"]:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            messages.append(message)
    return messages


def publish(topic: Topic, text: str, group: str = "g", dedup: str | None = None, **more: Any) -> dict[str, Any]:
    ids = {"MessageGroupId": group} | ({"MessageDeduplicationId": dedup} if dedup else {})
    answer: dict[str, Any] = topic.sns.publish(TopicArn=topic.arn, Message=text, **ids, **more)
    return answer


@pytest.mark.spec(
    "sns-fifo.to-fifo-queue",
    "sns-fifo.sequence",
    "sns-fifo.sequence-result",
    "sns-envelope.fifo-unsigned",
    "sns-envelope.fifo-sequence",
)
def test_a_fifo_queue_gets_ids_number_and_an_unsigned_envelope(sqs: Any, fifo: Topic) -> None:
    queue = fifo_queue(sqs)
    subscription = fifo.subscribe("sqs", arn_of(sqs, queue))
    published = publish(fifo, "text", dedup="d", Subject="s")
    message = receive_one(sqs, queue)
    envelope = json.loads(message["Body"])
    assert list(envelope) == [
        "Type",
        "MessageId",
        "SequenceNumber",
        "TopicArn",
        "Subject",
        "Message",
        "Timestamp",
        "UnsubscribeURL",
    ]
    assert envelope["MessageId"] == published["MessageId"]
    assert envelope["SequenceNumber"] == published["SequenceNumber"]
    assert envelope["UnsubscribeURL"].endswith(subscription)
    assert len(published["SequenceNumber"]) == 20
    assert message["Attributes"]["MessageGroupId"] == "g"
    assert message["Attributes"]["MessageDeduplicationId"] == "d"


@pytest.mark.spec("sns-fifo.to-standard-queue")
def test_a_standard_queue_gets_neither_id(sqs: Any, fifo: Topic) -> None:
    queue = fifo_queue(sqs, fifo=False)
    fifo.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    publish(fifo, "text", dedup="d")
    message = receive_one(sqs, queue)
    assert message["Body"] == "text"
    assert {"MessageGroupId", "MessageDeduplicationId"}.isdisjoint(message["Attributes"])


@pytest.mark.spec("sns-fifo.content", "sns-fifo.content-structure", "sns-fifo.to-fifo-queue")
def test_the_content_stands_for_a_missing_id(sqs: Any, by_content: Topic) -> None:
    queue = fifo_queue(sqs)
    by_content.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    text = json.dumps({"default": "d", "sqs": "for queues"})
    attribute = {"a": {"DataType": "String", "StringValue": "1"}}
    first = publish(by_content, text, MessageStructure="json")
    again = publish(by_content, text, MessageStructure="json", MessageAttributes=attribute)
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    message = receive_one(sqs, queue)
    assert message["Body"] == "for queues"
    assert message["Attributes"]["MessageDeduplicationId"] == hashlib.sha256(text.encode()).hexdigest()
    assert receive_all(sqs, queue) == []


@pytest.mark.spec("sns-fifo.repeat", "sns-fifo.window", "sns-fifo.scope-topic")
def test_a_duplicate_is_one_for_five_minutes(service: Service, sqs: Any, fifo: Topic) -> None:
    queue = fifo_queue(sqs)
    fifo.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    first = publish(fifo, "one", dedup="d")
    duplicate = publish(fifo, "two", group="other", dedup="d")
    assert (duplicate["MessageId"], duplicate["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    publish(fifo, "behind", dedup="e")  # arrives after the first is settled, since leases end when the clock jumps
    assert [message["Body"] for message in drained(sqs, queue, 2)] == ["one", "behind"]
    service.advance(WINDOW_S + 1)
    later = publish(fifo, "three", dedup="d")
    assert later["SequenceNumber"] > first["SequenceNumber"]
    bodies = [message["Body"] for message in drained(sqs, queue, 1)]
    while "three" not in bodies:
        bodies += [message["Body"] for message in drained(sqs, queue, 1)]
    assert set(bodies) <= {"behind", "three"}


@pytest.mark.spec("sns-fifo.scope-group", "sns-fifo.scope-back")
def test_duplicates_of_a_group(sqs: Any, fifo: Topic) -> None:
    fifo.set("FifoThroughputScope", "MessageGroup")
    ids = [publish(fifo, "m", group, "d")["MessageId"] for group in ("a", "b", "a")]
    assert ids[0] == ids[2] != ids[1]
    with pytest.raises(ClientError, match="FifoThroughputScope"):
        fifo.set("FifoThroughputScope", "Topic")


@pytest.mark.spec("sns-fifo.sequence", "sns-fifo.sequence-result", "fifo-delivery.order")
def test_order_of_each_group(sqs: Any, by_content: Topic) -> None:
    queues = [fifo_queue(sqs) for _ in range(3)]
    for queue in queues:
        by_content.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    expected: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    numbers: list[str] = []
    for batch in range(6):
        entries = []
        for position in range(10):
            group = "abc"[(batch + position) % 3]
            text = f"{group}{batch}.{position}"
            expected[group].append(text)
            entries.append({"Id": str(position), "Message": text, "MessageGroupId": group})
        answer = by_content.sns.publish_batch(TopicArn=by_content.arn, PublishBatchRequestEntries=entries)
        assert not answer.get("Failed")
        numbers += [entry["SequenceNumber"] for entry in answer["Successful"]]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 60
    for queue in queues:
        came: dict[str, list[str]] = {"a": [], "b": [], "c": []}
        for message in drained(sqs, queue, 60):
            came[message["Attributes"]["MessageGroupId"]].append(message["Body"])
        assert came == expected


@pytest.mark.spec("sns-fifo.batch-duplicates")
def test_a_batch_with_a_duplicate_in_it(by_content: Topic) -> None:
    entries = [{"Id": str(number), "Message": "same", "MessageGroupId": "g"} for number in range(2)]
    answer = by_content.sns.publish_batch(TopicArn=by_content.arn, PublishBatchRequestEntries=entries)
    first, second = answer["Successful"]
    assert (first["MessageId"], first["SequenceNumber"]) == (second["MessageId"], second["SequenceNumber"])


def test_large_messages_keep_their_number(sqs: Any, fifo: Topic) -> None:
    queues = [fifo_queue(sqs) for _ in range(2)]
    for queue in queues:
        fifo.subscribe("sqs", arn_of(sqs, queue))
    text = "x" * 200_000
    published = [publish(fifo, text, dedup=dedup) for dedup in ("1", "1", "2")]
    assert published[0]["SequenceNumber"] == published[1]["SequenceNumber"]
    numbers = [each["SequenceNumber"] for each in published[1:]]
    for queue in queues:
        messages = drained(sqs, queue, 2)
        assert [json.loads(message["Body"])["SequenceNumber"] for message in messages] == numbers
        assert {json.loads(message["Body"])["Message"] for message in messages} == {text}


@pytest.mark.spec("sns-dead-letter.fifo-ids", "sns-answer.queue-denied", "fifo-delivery.given-up")
def test_a_queue_that_refuses_goes_to_its_dead_letter_queue_in_order(sqs: Any, fifo: Topic) -> None:
    closed, letters = fifo_queue(sqs, open_to="arn:aws:sns:*:*:nobody"), fifo_queue(sqs)
    well = fifo_queue(sqs)
    fifo.subscribe("sqs", arn_of(sqs, closed), **fifo.dead_letters_to(arn_of(sqs, letters)))
    fifo.subscribe("sqs", arn_of(sqs, well), RawMessageDelivery="true")
    texts = [str(number) for number in range(12)]
    for text in texts:
        publish(fifo, text, dedup=text)
    assert [message["Body"] for message in drained(sqs, well, 12)] == texts
    dead = drained(sqs, letters, 12)
    assert [json.loads(message["Body"])["Message"] for message in dead] == texts
    assert {message["Attributes"]["MessageGroupId"] for message in dead} == {"g"}
    assert [message["Attributes"]["MessageDeduplicationId"] for message in dead] == texts


def test_a_subscription_removed_between_publishes(sqs: Any, fifo: Topic) -> None:
    staying, leaving = fifo_queue(sqs), fifo_queue(sqs)
    fifo.subscribe("sqs", arn_of(sqs, staying), RawMessageDelivery="true")
    subscription = fifo.subscribe("sqs", arn_of(sqs, leaving), RawMessageDelivery="true")
    publish(fifo, "1", dedup="1")
    assert receive_one(sqs, leaving)["Body"] == "1"
    fifo.sns.unsubscribe(SubscriptionArn=subscription)
    publish(fifo, "2", dedup="2")
    assert [message["Body"] for message in drained(sqs, staying, 2)] == ["1", "2"]
    assert receive_all(sqs, leaving) == []
