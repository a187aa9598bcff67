"""The names of AWS Query, which SQS's service model does not have any more: in requests and in XML responses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.door import Door
from tests.integration.cqs.sqs import ACCOUNT

spec = pytest.mark.spec
URL: dict[str, Any] = {"QueueUrl": "q"}
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793"
ATTRIBUTES = {
    "MessageAttribute.1.Name": "color",
    "MessageAttribute.1.Value.DataType": "String",
    "MessageAttribute.1.Value.StringValue": "blue",
    "MessageAttribute.2.Name": "blob",
    "MessageAttribute.2.Value.DataType": "Binary",
    "MessageAttribute.2.Value.BinaryValue": "AQID",
    "MessageSystemAttribute.1.Name": "AWSTraceHeader",
    "MessageSystemAttribute.1.Value.DataType": "String",
    "MessageSystemAttribute.1.Value.StringValue": TRACE,
}
PARSED = {
    "color": {"DataType": "String", "StringValue": "blue"},
    "blob": {"DataType": "Binary", "BinaryValue": "AQID"},
}


async def done(door: Door, action: str, parameters: dict[str, Any]) -> None:
    reply = await door.query(action, URL | parameters)
    assert reply.status == 200, reply.body


async def received(door: Door) -> dict[str, Any]:
    """The one message in the queue, as AWS JSON shows it."""
    shown = await door.json("ReceiveMessage", QueueUrl="q", AttributeNames=["All"], MessageAttributeNames=["All"])
    (message,) = shown.json()["Messages"]
    return dict(message)


def prefixed(prefix: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in parameters.items()}


# -- asked ------------------------------------------------------------------------------------------------------------


@spec("query.message-attributes", "query.system-attributes")
@pytest.mark.parametrize(
    ("action", "prefix"),
    [
        ("SendMessage", ""),
        pytest.param("SendMessageBatch", "SendMessageBatchRequestEntry.1", marks=spec("query.send-batch")),
    ],
)
async def test_messages(door: Door, action: str, prefix: str) -> None:
    await door.queue("q")
    message = {"MessageBody": "x", **ATTRIBUTES}
    await done(door, action, prefixed(prefix, {"Id": "a", **message}) if prefix else message)
    shown = await received(door)
    assert (shown["Body"], shown["MessageAttributes"]) == ("x", PARSED)
    assert shown["Attributes"]["AWSTraceHeader"] == TRACE


# -- answered ---------------------------------------------------------------------------------------------------------


@spec("query.element-message", "query.element-attribute", "query.element-message-attribute", "query.digest-names")
async def test_received_messages(door: Door) -> None:
    await door.queue("q")
    sent = [await door.query("SendMessage", URL | {"MessageBody": body, **ATTRIBUTES}) for body in ("1", "2")]
    reply = await door.query(
        "ReceiveMessage",
        URL | {"MaxNumberOfMessages": 10, "AttributeName.1": "SenderId", "MessageAttributeName.1": "All"},
    )
    assert sorted(reply.texts("ReceiveMessageResult/Message/Body")) == ["1", "2"]
    digests = [each.texts("SendMessageResult/MD5OfMessageBody")[0] for each in sent]
    assert sorted(reply.texts("ReceiveMessageResult/Message/MD5OfBody")) == sorted(digests)
    message = reply.xml().find("ReceiveMessageResult/Message")
    assert message is not None
    assert [each.text for each in message.findall("Attribute/*")] == ["SenderId", ACCOUNT]
    shown = {
        each.findtext("Name"): {part.tag: part.text for part in each.findall("Value/*")}
        for each in message.findall("MessageAttribute")
    }
    assert shown == PARSED


@spec(
    "query.send-batch",
    "query.change-batch",
    "query.delete-batch",
    "query.element-send-entry",
    "query.element-change-entry",
    "query.element-delete-entry",
    "query.element-error-entry",
)
async def test_batches(door: Door) -> None:
    await door.queue("q")

    async def entries(action: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
        request = f"{action}RequestEntry"
        two = prefixed(f"{request}.1", {"Id": "good", **good}) | prefixed(f"{request}.2", {"Id": "bad", **bad})
        reply = await door.query(action, URL | two)
        assert reply.texts(f"{action}Result/{action}ResultEntry/Id") == ["good"]
        assert reply.texts(f"{action}Result/BatchResultErrorEntry/Id") == ["bad"]
        assert reply.texts(f"{action}Result/BatchResultErrorEntry/SenderFault") == ["true"]

    await entries("SendMessageBatch", {"MessageBody": "x"}, {"MessageBody": "\ufffe"})
    handle = (await received(door))["ReceiptHandle"]
    good, bad = ({"ReceiptHandle": text, "VisibilityTimeout": 9} for text in (handle, "garbage"))
    await entries("ChangeMessageVisibilityBatch", good, bad)
    await entries("DeleteMessageBatch", {"ReceiptHandle": handle}, {"ReceiptHandle": "garbage"})
