"""The names of AWS Query, which SQS's service model does not have any more: in requests and in XML responses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.door import STRANGER, Door
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


@spec("query.queue-attributes", "query.numbered-from-one")
async def test_queue_attributes(door: Door) -> None:
    first = {"Attribute.1.Name": "DelaySeconds", "Attribute.1.Value": "5"}
    await done(door, "CreateQueue", {"QueueName": "q", **first})
    assert await door.attributes("q", "DelaySeconds") == {"DelaySeconds": "5"}
    second = {"Attribute.2.Name": "VisibilityTimeout", "Attribute.2.Value": "6"}
    await done(door, "SetQueueAttributes", {**first, **second, "Attribute.1.Value": "7"})
    shown = await door.attributes("q", "DelaySeconds", "VisibilityTimeout")
    assert shown == {"DelaySeconds": "7", "VisibilityTimeout": "6"}
    nought = {"Attribute.0.Name": "DelaySeconds", "Attribute.0.Value": "5"}
    assert (await door.query("SetQueueAttributes", URL | nought)).status == 400


@spec("query.tags", "query.tag-keys")
async def test_tags(door: Door) -> None:
    await done(door, "CreateQueue", {"QueueName": "q", "Tag.1.Key": "a", "Tag.1.Value": "1"})
    await done(door, "TagQueue", {"Tag.1.Key": "b", "Tag.1.Value": "2", "Tag.2.Key": "c", "Tag.2.Value": ""})
    assert (await door.json("ListQueueTags", **URL)).json() == {"Tags": {"a": "1", "b": "2", "c": ""}}
    await done(door, "UntagQueue", {"TagKey.1": "a", "TagKey.2": "c"})
    assert (await door.json("ListQueueTags", **URL)).json() == {"Tags": {"b": "2"}}


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


@pytest.mark.parametrize(
    ("parameters", "system", "attributes"),
    [
        pytest.param(
            {"AttributeName.1": "SenderId", "AttributeName.2": "AWSTraceHeader"},
            ["SenderId", "AWSTraceHeader"],
            [],
            marks=spec("query.attribute-names", "query.system-attribute-names"),
        ),
        pytest.param(
            {"MessageSystemAttributeName.1": "AWSTraceHeader"},
            ["AWSTraceHeader"],
            [],
            marks=spec("query.system-attribute-names"),
        ),
        pytest.param(
            {"MessageAttributeName.1": "color", "MessageAttributeName.2": "bl.*"},
            [],
            ["blob", "color"],
            marks=spec("query.message-attribute-names"),
        ),
    ],
)
async def test_requested_attributes_of_a_receive(
    door: Door, parameters: dict[str, str], system: list[str], attributes: list[str]
) -> None:
    await door.queue("q")
    await done(door, "SendMessage", {"MessageBody": "x", **ATTRIBUTES})
    reply = await door.query("ReceiveMessage", URL | parameters)
    message = "ReceiveMessageResult/Message"
    assert reply.texts(f"{message}/Attribute/Name") == system
    assert sorted(reply.texts(f"{message}/MessageAttribute/Name")) == attributes


@spec("query.attribute-names")
async def test_names_of_queue_attributes(door: Door) -> None:
    await door.queue("q")
    reply = await door.query(
        "GetQueueAttributes", URL | {"AttributeName.1": "DelaySeconds", "AttributeName.2": "QueueArn"}
    )
    assert reply.texts("GetQueueAttributesResult/Attribute/Name") == ["DelaySeconds", "QueueArn"]


@spec("query.permissions")
async def test_permissions(door: Door) -> None:
    url = await door.queue("q")
    grant = {
        "Label": "l",
        "AWSAccountId.1": STRANGER.account,
        "ActionName.1": "SendMessage",
        "ActionName.2": "GetQueueUrl",
    }
    await done(door, "AddPermission", grant)
    assert (await door.json("SendMessage", key=STRANGER, QueueUrl=url, MessageBody="x")).status == 200


# -- answered ---------------------------------------------------------------------------------------------------------


@spec("query.element-queue-url")
async def test_urls(door: Door) -> None:
    urls = [await door.queue(name) for name in ("a", "b")]
    assert (await door.query("ListQueues")).texts("ListQueuesResult/QueueUrl") == urls


@spec("query.element-attribute")
async def test_attributes(door: Door) -> None:
    await door.queue("q")
    reply = await door.query("GetQueueAttributes", URL | {"AttributeName.1": "All"})
    names, values = (reply.texts(f"GetQueueAttributesResult/Attribute/{part}") for part in ("Name", "Value"))
    assert dict(zip(names, values, strict=True)) == await door.attributes("q")


@spec("query.element-tag")
async def test_listed_tags(door: Door) -> None:
    await door.queue("q")
    await door.json("TagQueue", QueueUrl="q", Tags={"a": "1", "b": ""})
    reply = await door.query("ListQueueTags", URL)
    assert reply.texts("ListQueueTagsResult/Tag/Key") == ["a", "b"]
    assert reply.texts("ListQueueTagsResult/Tag/Value") == ["1", ""]


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
