"""Standard queues: sending and receiving messages."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from cqs.engines.contract import IN_FLIGHT_MAX
from tests.integration.sqs import ACCOUNT, BASE_URL, Sqs, refused

NO_QUEUE = ("QueueDoesNotExist", "The specified queue does not exist.")
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


async def test_send_receive_delete(sqs: Sqs) -> None:
    url = await sqs.queue()
    sent = await sqs.send(url, "gr\u00fc\u00dfe")
    assert sent == {
        "MessageId": sent["MessageId"],
        "MD5OfMessageBody": hashlib.md5("gr\u00fc\u00dfe".encode()).hexdigest(),
    }
    (message,) = await sqs.receive(url)
    assert message == {
        "MessageId": sent["MessageId"],
        "ReceiptHandle": message["ReceiptHandle"],
        "MD5OfBody": sent["MD5OfMessageBody"],
        "Body": "gr\u00fc\u00dfe",
    }
    assert await sqs.receive(url) == []
    await sqs.delete(url, message)
    await sqs.delete(url, message)
    sqs.advance(31)
    assert await sqs.receive(url) == []
    assert await sqs.counts(url) == (0, 0, 0)


async def test_system_attributes(sqs: Sqs) -> None:
    url = await sqs.queue()
    before_ms = sqs.clock.now_ms()
    await sqs.send(
        url,
        MessageGroupId="tenant",
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}},
    )
    await sqs.receive(url, VisibilityTimeout=0)
    (message,) = await sqs.receive(url, AttributeNames=["SenderId"], MessageSystemAttributeNames=["All"])
    attributes = message["Attributes"]
    assert before_ms <= int(attributes.pop("SentTimestamp")) <= int(attributes.pop("ApproximateFirstReceiveTimestamp"))
    assert attributes == {
        "SenderId": ACCOUNT,
        "ApproximateReceiveCount": "2",
        "AWSTraceHeader": TRACE,
        "MessageGroupId": "tenant",
    }


async def test_only_attributes_asked_for(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    (message,) = await sqs.receive(url, AttributeNames=["SequenceNumber", "Nonsense", "SenderId"])
    assert message["Attributes"] == {"SenderId": ACCOUNT}


async def test_trace_header_of_the_request(sqs: Sqs) -> None:
    url = await sqs.queue()
    sent = await sqs.send(url, trace_header=TRACE)
    assert "MD5OfMessageSystemAttributes" not in sent
    (message,) = await sqs.receive(url, AttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": TRACE}


ATTRIBUTES = {
    "color": {"DataType": "String", "StringValue": "blue"},
    "count": {"DataType": "Number", "StringValue": "3"},
    "blob": {"DataType": "Binary", "BinaryValue": b"\x01\x02\x03"},
}


@pytest.mark.parametrize(
    ("names", "expected", "md5"),
    [
        (["All"], ["blob", "color", "count"], "d838729972a4b70e2d2acd9d59ac847c"),
        ([".*"], ["blob", "color", "count"], "d838729972a4b70e2d2acd9d59ac847c"),
        (["color", "absent", "in valid"], ["color"], "da1b33cc3cbfe8b1630921e78e6b9880"),
        (["col.*"], ["color"], "da1b33cc3cbfe8b1630921e78e6b9880"),
        (["nothing.*"], [], None),
        ([], [], None),
    ],
)
async def test_message_attributes(sqs: Sqs, names: list[str], expected: list[str], md5: str | None) -> None:
    url = await sqs.queue()
    sent = await sqs.send(url, MessageAttributes=ATTRIBUTES)
    assert sent["MD5OfMessageAttributes"] == "d838729972a4b70e2d2acd9d59ac847c"
    (message,) = await sqs.receive(url, MessageAttributeNames=names)
    assert message.get("MD5OfMessageAttributes") == md5
    assert message.get("MessageAttributes", {}) == {name: ATTRIBUTES[name] for name in expected}


async def test_numbers_are_normalised(sqs: Sqs) -> None:
    url = await sqs.queue()
    sent = await sqs.send(url, MessageAttributes={"numeric": {"DataType": "Number", "StringValue": "0001.23000"}})
    (message,) = await sqs.receive(url, MessageAttributeNames=["All"])
    assert sent["MD5OfMessageAttributes"] == "6c5cf70458f4f4b7b5cf18617bf23767"
    assert message["MD5OfMessageAttributes"] == "6177b725901df62acbb49a268fa56714"
    assert message["MessageAttributes"] == {"numeric": {"DataType": "Number", "StringValue": "1.23"}}


async def test_delay(sqs: Sqs) -> None:
    url = await sqs.queue(DelaySeconds="5")
    await sqs.send(url, "queue's")
    await sqs.send(url, "at once", DelaySeconds=0)
    await sqs.send(url, "late", DelaySeconds=900)
    assert await sqs.counts(url) == (1, 0, 2)
    assert await sqs.bodies(url) == ["at once"]
    sqs.advance(5.1)
    assert await sqs.bodies(url) == ["queue's"]
    sqs.advance(895)
    assert "late" in await sqs.bodies(url)


async def test_retention(sqs: Sqs) -> None:
    url = await sqs.queue(MessageRetentionPeriod="60")
    await sqs.send(url)
    sqs.advance(59)
    assert len(await sqs.receive(url, VisibilityTimeout=0)) == 1
    sqs.advance(2)
    assert await sqs.receive(url) == []


SIZE = "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
ID = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
TYPE = "The request include parameter that is not valid for this queue type."


@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        ({"MessageBody": ""}, "MissingParameter", "The request must contain the parameter MessageBody."),
        ({}, "MissingParameter", "The request must contain the parameter MessageBody."),
        ({"MessageBody": "\x00"}, "InvalidMessageContents", None),
        ({"MessageBody": "\u00fc" * 512 + "x"}, "InvalidParameterValue", SIZE),
        (
            {"MessageBody": "x" * 1_000, "MessageAttributes": {"a": {"DataType": "String", "StringValue": "y" * 18}}},
            "InvalidParameterValue",
            SIZE,
        ),
        (
            {"MessageBody": "x", "DelaySeconds": 901},
            "InvalidParameterValue",
            "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
        ),
        ({"MessageBody": "x", "DelaySeconds": -1}, "InvalidParameterValue", None),
        (
            {"MessageBody": "x", "MessageDeduplicationId": "d"},
            "InvalidParameterValue",
            f"Value d for parameter MessageDeduplicationId is invalid. Reason: {TYPE}",
        ),
        (
            {"MessageBody": "x", "MessageGroupId": "a b"},
            "InvalidParameterValue",
            f"Value a b for parameter MessageGroupId is invalid. Reason: MessageGroupId {ID}",
        ),
        ({"MessageBody": "x", "MessageGroupId": ""}, "InvalidParameterValue", None),
        ({"MessageBody": "x", "MessageGroupId": "g" * 129}, "InvalidParameterValue", None),
    ],
)
async def test_send_refused(sqs: Sqs, members: dict[str, Any], code: str, text: str | None) -> None:
    url = await sqs.queue(MaximumMessageSize="1024")
    refusal = await refused(sqs("SendMessage", QueueUrl=url, **members))
    assert refusal == (code, refusal[1] if text is None else text)
    assert await sqs.counts(url) == (0, 0, 0)


async def test_size_at_the_limit(sqs: Sqs) -> None:
    url = await sqs.queue(MaximumMessageSize="1024")
    await sqs.send(url, "\u00fc" * 512)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (
            {"MaxNumberOfMessages": 11},
            "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
        ),
        ({"MaxNumberOfMessages": 0}, None),
        (
            {"WaitTimeSeconds": 21},
            "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
        ),
        ({"WaitTimeSeconds": -1}, None),
        (
            {"VisibilityTimeout": 43_201},
            "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Must be >= 0 and <= 43200, if provided.",
        ),
        (
            {"ReceiveRequestAttemptId": "a"},
            f"Value a for parameter ReceiveRequestAttemptId is invalid. Reason: {TYPE}",
        ),
    ],
)
async def test_receive_refused(sqs: Sqs, members: dict[str, Any], text: str | None) -> None:
    url = await sqs.queue()
    code, message = await refused(sqs("ReceiveMessage", QueueUrl=url, **members))
    assert code == "InvalidParameterValue"
    assert text in (None, message)


@pytest.mark.parametrize(
    ("action", "missing"),
    [
        ("DeleteMessage", "ReceiptHandle"),
        ("ChangeMessageVisibility", "ReceiptHandle"),
        ("SetQueueAttributes", "Attribute.Name"),
        ("TagQueue", "Tags"),
        ("UntagQueue", "TagKeys"),
        ("AddPermission", "Label"),
        ("RemovePermission", "Label"),
    ],
)
async def test_missing_parameters(sqs: Sqs, action: str, missing: str) -> None:
    url = await sqs.queue()
    assert await refused(sqs(action, QueueUrl=url)) == (
        "MissingParameter",
        f"The request must contain the parameter {missing}.",
    )


async def test_queue_must_be_named_and_there(sqs: Sqs) -> None:
    await sqs.queue()
    assert await refused(sqs("SendMessage")) == NO_QUEUE  # before any other argument
    assert await refused(sqs("SendMessage", QueueUrl=f"{BASE_URL}/{ACCOUNT}/absent")) == NO_QUEUE
    assert await refused(sqs("SendMessage", QueueUrl=f"{BASE_URL}/{ACCOUNT}/q", region="eu-west-1")) == NO_QUEUE
    await sqs("SendMessage", path=f"/{ACCOUNT}/q", MessageBody="by path")
    assert await sqs.bodies("q") == ["by path"]


async def test_in_flight_limit(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert IN_FLIGHT_MAX == 120_000
    monkeypatch.setattr("cqs.engines.embedded.receiving.IN_FLIGHT_MAX", 2)
    url = await sqs.queue()
    for _ in range(3):
        await sqs.send(url)
    held = await sqs.receive(url)
    assert len(held) == 2
    assert (await refused(sqs.receive(url)))[0] == "OverLimit"
    poll = await sqs.poll(url)
    await sqs.delete(url, held[0])
    assert len(await poll) == 1
