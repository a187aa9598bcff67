"""SQS through boto3: standard, FIFO and dead-letter queues, batches, errors as SDK users see them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.harness.service import Service


def bodies(sqs: Any, queue: str, n: int = 10, **more: Any) -> list[str]:
    """The messages of one receive."""
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=n, **more)
    return [message["Body"] for message in received.get("Messages", [])]


def counts(sqs: Any, queue: str) -> dict[str, int]:
    """Visible, in flight, delayed."""
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    prefix = "ApproximateNumberOfMessages"
    return {name.removeprefix(prefix): int(attributes[name]) for name in attributes if name.startswith(prefix)}


@contextmanager
def refused(code: str) -> Any:
    with pytest.raises(ClientError) as caught:
        yield caught
    assert caught.value.response["Error"]["Code"] == code


@pytest.mark.slice
def test_a_message_goes_round(sqs: Any, queue: str) -> None:
    text = "grüße <&> 🎉\r\n\t"
    sent = sqs.send_message(
        QueueUrl=queue,
        MessageBody=text,
        MessageAttributes={
            "n": {"DataType": "Number", "StringValue": "42"},
            "b": {"DataType": "Binary", "BinaryValue": b"\0\1"},
        },
    )
    assert sent["MD5OfMessageBody"] == hashlib.md5(text.encode()).hexdigest()
    (message,) = sqs.receive_message(
        QueueUrl=queue, AttributeNames=["All"], MessageAttributeNames=["All"], WaitTimeSeconds=2
    )["Messages"]
    assert message["Body"] == text
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageAttributes"]["b"]["BinaryValue"] == b"\0\1"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert counts(sqs, queue) == {"": 0, "NotVisible": 0, "Delayed": 0}


def test_visibility_ends_by_the_clock(service: Service, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert sqs.receive_message(QueueUrl=queue, VisibilityTimeout=600)["Messages"]
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    service.advance(601)
    (again,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["ApproximateReceiveCount"])["Messages"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"


def test_batches(sqs: Any, queue: str) -> None:
    entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(9)] + [{"Id": "bad", "MessageBody": "\x00"}]
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert len(sent["Successful"]) == 9
    assert [failed["Code"] for failed in sent["Failed"]] == ["InvalidMessageContents"]
    received: list[Any] = []
    while len(received) < 9:
        received += sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=2)["Messages"]
    deleted = sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(received)],
    )
    assert len(deleted["Successful"]) == 9


@pytest.mark.slice
def test_fifo_keeps_order_and_drops_duplicates(sqs: Any, fifo: str) -> None:
    first = sqs.send_message(QueueUrl=fifo, MessageBody="0", MessageGroupId="g")
    again = sqs.send_message(QueueUrl=fifo, MessageBody="0", MessageGroupId="g")
    assert (first["MessageId"], first["SequenceNumber"]) == (again["MessageId"], again["SequenceNumber"])
    for n in range(1, 5):
        sqs.send_message(QueueUrl=fifo, MessageBody=str(n), MessageGroupId="g")
    received = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=3)["Messages"]
    assert [message["Body"] for message in received] == ["0", "1", "2"]
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo), "the group is locked"
    for message in received:
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=message["ReceiptHandle"])
    assert [m["Body"] for m in sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)["Messages"]] == ["3", "4"]


def test_a_spent_message_moves_to_the_dead_letter_queue(sqs: Any, queue: str, new_name: Callable[[], str]) -> None:
    dead = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.set_queue_attributes(
        QueueUrl=queue,
        Attributes={"RedrivePolicy": f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":2}}'},
    )
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [queue]
    sent = sqs.send_message(QueueUrl=queue, MessageBody="poison")
    for _ in range(2):
        assert sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    (moved,) = sqs.receive_message(QueueUrl=dead, AttributeNames=["All"], WaitTimeSeconds=2)["Messages"]
    assert moved["MessageId"] == sent["MessageId"]
    assert moved["Attributes"]["ApproximateReceiveCount"] == "3"
    assert moved["Attributes"]["DeadLetterQueueSourceArn"].endswith(queue.rpartition("/")[2])


def test_purge(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    sqs.purge_queue(QueueUrl=queue)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    with pytest.raises(sqs.exceptions.PurgeQueueInProgress):
        sqs.purge_queue(QueueUrl=queue)


def test_errors_have_the_sdk_classes(service: Service, sqs: Any, queue: str) -> None:
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as missing:
        sqs.send_message(QueueUrl=queue + "-not", MessageBody="x")
    assert missing.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=queue, ReceiptHandle="garbage")
    with pytest.raises(ClientError) as wrong:
        service.client("sqs", secret="wrong").list_queues()
    assert wrong.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    with pytest.raises(ClientError) as unknown:
        service.client("sqs", key="AKIANOBODYNOBODYNOBO").list_queues()
    assert unknown.value.response["Error"]["Code"] == "InvalidClientTokenId"


def test_regions_are_apart(service: Service, sqs: Any, queue: str, new_name: Callable[[], str]) -> None:
    name = new_name()
    elsewhere = service.client("sqs", region_name="ap-south-1")
    there = elsewhere.create_queue(QueueName=name)["QueueUrl"]
    assert there.startswith(service.url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)
    assert elsewhere.list_queues(QueueNamePrefix=name)["QueueUrls"] == [there]
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName=name)
    here = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=here, MessageBody="here")
    elsewhere.send_message(QueueUrl=there, MessageBody="there")
    assert (bodies(sqs, here), bodies(elsewhere, there)) == (["here"], ["there"])


def test_another_account_needs_the_queues_policy(
    service: Service, sqs: Any, queue: str, stranger: dict[str, str]
) -> None:
    other = service.client("sqs", **stranger)
    account = service.client("sts", **stranger).get_caller_identity()["Account"]
    with refused("AccessDenied"):
        other.send_message(QueueUrl=queue, MessageBody="x")
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    allow = {
        "Effect": "Allow",
        "Principal": {"AWS": account},
        "Action": ["sqs:SendMessage", "sqs:GetQueueUrl"],
        "Resource": attributes["QueueArn"],
    }
    sqs.set_queue_attributes(
        QueueUrl=queue, Attributes={"Policy": json.dumps({"Version": "2012-10-17", "Statement": [allow]})}
    )
    _, owner, name = queue.rsplit("/", 2)
    assert other.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=owner)["QueueUrl"] == queue
    other.send_message(QueueUrl=queue, MessageBody="allowed")
    with refused("AccessDenied"):
        other.receive_message(QueueUrl=queue)
    (message,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["SenderId"])["Messages"]
    assert (message["Body"], message["Attributes"]["SenderId"]) == ("allowed", account)
    deny = {**allow, "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage"}
    sqs.set_queue_attributes(
        QueueUrl=queue, Attributes={"Policy": json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]})}
    )
    with refused("AccessDenied"):
        other.send_message(QueueUrl=queue, MessageBody="denied")


def test_who_am_i(service: Service) -> None:
    identity = service.client("sts").get_caller_identity()
    assert identity["Arn"] == f"arn:aws:iam::{identity['Account']}:root"
