"""SQS through boto3: standard, FIFO and dead-letter queues, batches, errors as SDK users see them."""

from __future__ import annotations

import hashlib
import threading
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.acceptance.conftest import Service


@pytest.fixture
def queue(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName=f"q-{uuid.uuid4().hex[:12]}")["QueueUrl"])


@pytest.fixture
def fifo(sqs: Any) -> str:
    created = sqs.create_queue(
        QueueName=f"q-{uuid.uuid4().hex[:12]}.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )
    return str(created["QueueUrl"])


def test_a_message_goes_round(sqs: Any, queue: str) -> None:
    text = "grüße <&> 🎉\r\n\t"
    sent = sqs.send_message(
        QueueUrl=queue,
        MessageBody=text,
        MessageAttributes={"n": {"DataType": "Number", "StringValue": "42"}, "b": {"DataType": "Binary", "BinaryValue": b"\0\1"}},
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
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert {counts[name] for name in counts if name.startswith("ApproximateNumber")} == {"0"}


def test_visibility_ends_by_the_clock(service: Service, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert sqs.receive_message(QueueUrl=queue, VisibilityTimeout=600)["Messages"]
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    service.advance(601)
    (again,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["ApproximateReceiveCount"])["Messages"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"


def test_a_long_poll_is_woken_by_a_send(service: Service, sqs: Any, queue: str) -> None:
    got: list[Any] = []
    poll = threading.Thread(
        target=lambda: got.extend(
            service.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", [])
        )
    )
    poll.start()
    sqs.send_message(QueueUrl=queue, MessageBody="wake")
    poll.join(10)
    assert [message["Body"] for message in got] == ["wake"]


def test_a_delay_wakes_a_long_poll(service: Service, sqs: Any, queue: str) -> None:
    got: list[Any] = []
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=900)
    poll = threading.Thread(
        target=lambda: got.extend(
            service.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", [])
        )
    )
    poll.start()
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    service.advance(901)
    poll.join(10)
    assert [message["Body"] for message in got + sqs.receive_message(QueueUrl=queue).get("Messages", [])] == ["later"]


def test_batches(sqs: Any, queue: str) -> None:
    entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(9)] + [{"Id": "bad", "MessageBody": "\x00"}]
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert len(sent["Successful"]) == 9
    assert [failed["Code"] for failed in sent["Failed"]] == ["InvalidMessageContents"]
    received = []
    while len(received) < 9:
        received += sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=2)["Messages"]
    deleted = sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(received)],
    )
    assert len(deleted["Successful"]) == 9


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


def test_a_spent_message_moves_to_the_dead_letter_queue(sqs: Any, queue: str) -> None:
    dead = sqs.create_queue(QueueName=f"dead-{uuid.uuid4().hex[:12]}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.set_queue_attributes(
        QueueUrl=queue,
        Attributes={"RedrivePolicy": f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":2}}'},
    )
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


def test_regions_and_listing(service: Service, sqs: Any) -> None:
    name = f"r-{uuid.uuid4().hex[:12]}"
    elsewhere = service.client("sqs", region_name="ap-south-1")
    url = elsewhere.create_queue(QueueName=name)["QueueUrl"]
    assert url.startswith(service.url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)
    assert elsewhere.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]


def test_who_am_i(service: Service) -> None:
    identity = service.client("sts").get_caller_identity()
    assert identity["Arn"] == f"arn:aws:iam::{identity['Account']}:root"
