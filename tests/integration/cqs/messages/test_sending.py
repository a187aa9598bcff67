"""SendMessage on the wire: limits of a message, and the error texts in both protocols."""

from __future__ import annotations

import string
import uuid
from typing import Any

import pytest

from tests.integration.cqs.door import STRANGER, Door
from tests.integration.cqs.sqs import Sqs
from tests.integration.cqs.sqs_wire import Refusal, Wire, Wires, invalid, invalid_value, missing, modelled

spec = pytest.mark.spec

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
TRACE_ATTRIBUTE = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
CHARACTERS = modelled(
    "InvalidMessageContents",
    "Invalid characters found. Valid unicode characters are "
    "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
)
SIZE = invalid_value("One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.")
NO_DEDUPLICATION = invalid_value(
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
QUEUE_TYPE = "The request include parameter that is not valid for this queue type."
PUNCTUATED = string.ascii_letters + string.digits + string.punctuation


def delay(value: int) -> Refusal:
    return invalid("DelaySeconds", value, "DelaySeconds must be >= 0 and <= 900.")


def bad_id(name: str, value: str) -> Refusal:
    reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
    return invalid(name, value, reason)


def text(value: str) -> dict[str, Any]:
    return {"MessageBody": value}


def attribute(value: str) -> dict[str, Any]:
    """An attribute with seven bytes of name and type."""
    return {"MessageAttributes": {"a": {"DataType": "String", "StringValue": value}}}


def ids(group: str | None = "g", dedup: str | None = "d") -> dict[str, Any]:
    given = {"MessageGroupId": group, "MessageDeduplicationId": dedup}
    return text("x") | {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("queue", "members", "refusal"),
    [
        pytest.param("q", {}, missing("MessageBody"), marks=spec("send.no-body")),
        pytest.param("q", text(""), missing("MessageBody"), marks=spec("send.no-body")),
        *[
            pytest.param("q", text(body), CHARACTERS, marks=spec("send.characters-refused"))
            for body in ("a\x00", "\x08", "\x0b", "\x0c", "\x0e", "\x1f", "\ufffe", "\U0001f600\uffff")
        ],
        pytest.param("q", text("x" * 1025), SIZE, marks=spec("send.size-over")),
        pytest.param("q", text("\u00fc" * 512 + "x"), SIZE, marks=spec("send.size-of-body")),
        pytest.param("q", text("x" * 1000) | attribute("y" * 18), SIZE, marks=spec("send.size-of-attributes")),
        pytest.param("q", text("x") | {"DelaySeconds": 901}, delay(901), marks=spec("send.delay-range")),
        pytest.param("q", text("x") | {"DelaySeconds": -1}, delay(-1), marks=spec("send.delay-range")),
        pytest.param(
            "q.fifo",
            ids() | {"DelaySeconds": 1},
            invalid("DelaySeconds", 1, QUEUE_TYPE),
            marks=spec("send.delay-on-fifo"),
        ),
        pytest.param("q.fifo", ids(group=None), missing("MessageGroupId"), marks=spec("send.group-needed")),
        pytest.param(
            "q",
            ids(group=None),
            invalid("MessageDeduplicationId", "d", QUEUE_TYPE),
            marks=spec("send.dedup-on-standard"),
        ),
        pytest.param("q.fifo", ids(dedup=None), NO_DEDUPLICATION, marks=spec("send.dedup-needed")),
        *[
            pytest.param("q.fifo", ids(group=bad), bad_id("MessageGroupId", bad), marks=spec("send.id-form"))
            for bad in ("a b", "g" * 129, "\u00fc", "a\tb")
        ],
        pytest.param("q", ids("a b", None), bad_id("MessageGroupId", "a b"), marks=spec("send.id-form")),
        pytest.param("q.fifo", ids(dedup="a b"), bad_id("MessageDeduplicationId", "a b"), marks=spec("send.id-form")),
        pytest.param("q.fifo", ids(group=""), bad_id("MessageGroupId", ""), marks=spec("send.id-empty")),
        pytest.param("q", ids("", None), bad_id("MessageGroupId", ""), marks=spec("send.id-empty")),
        pytest.param("q.fifo", ids(dedup=""), bad_id("MessageDeduplicationId", ""), marks=spec("send.id-empty")),
    ],
)
async def test_refused(sqs: Sqs, wires: Wires, queue: str, members: dict[str, Any], refusal: Refusal) -> None:
    url = await sqs.queue(queue, MaximumMessageSize="1024")
    await wires.refuses(refusal, "SendMessage", QueueUrl=url, **members)
    assert await sqs.counts(url) == (0, 0, 0)


@pytest.mark.parametrize("wire", ["json"], indirect=True)  # SDKs cannot write these in the query protocol
@pytest.mark.parametrize("body", ["\ud800", "a\udfffb", "\udc00\ud800"])
@spec("send.lone-surrogates")
async def test_half_a_character_is_refused(sqs: Sqs, wire: Wire, body: str) -> None:
    url = await sqs.queue()
    await wire.refuses(CHARACTERS, "SendMessage", QueueUrl=url, MessageBody=body)


@pytest.mark.parametrize(
    ("queue", "members"),
    [
        pytest.param("q", text(body), marks=spec("send.characters-allowed"))
        for body in ("\t\n\r ~", "\r\n\r", "\x7f\x80\u009f", "\ud7ff\ue000\ufffd", "\U00010000\U0010ffff", "<&>\"' ]]>")
    ]
    + [
        pytest.param("q", text("x" * 1024), marks=spec("send.size-at-the-limit")),
        pytest.param("q", text("x" * 1000) | attribute("y" * 17), marks=spec("send.size-at-the-limit")),
        pytest.param(
            "q",
            text("x" * 1024) | {"MessageSystemAttributes": TRACE_ATTRIBUTE},
            marks=spec("send.size-of-system-attributes"),
        ),
        pytest.param("q", ids("tenant", None), marks=spec("send.group-on-standard")),
        pytest.param("q.fifo", ids(PUNCTUATED, PUNCTUATED), marks=spec("send.id-form")),
        pytest.param("q.fifo", ids("g" * 128, "d" * 128), marks=spec("send.id-form")),
    ],
)
async def test_accepted(sqs: Sqs, wire: Wire, queue: str, members: dict[str, Any]) -> None:
    url = await sqs.queue(queue, MaximumMessageSize="1024")
    await wire("SendMessage", QueueUrl=url, **members)
    (message,) = await wire.receive(url)
    assert message["Body"] == members["MessageBody"]


@spec("send.message-id", "send.sequence-on-fifo-only", "digest.body", "digest.none-without-attributes")
async def test_the_response_to_a_send(sqs: Sqs, wire: Wire) -> None:
    standard, fifo = await sqs.queue(), await sqs.queue("q.fifo")
    sent = await wire.send(standard, "gr\u00fc\u00dfe", MessageGroupId="g")
    assert sent.keys() == {"MessageId", "MD5OfMessageBody"}
    assert str(uuid.UUID(sent["MessageId"])) == sent["MessageId"]
    assert sent["MD5OfMessageBody"] == "fee40dc24d0ad6a90c608052aa4e9e66"
    in_order = await wire.send(fifo, MessageGroupId="g", MessageDeduplicationId="d")
    assert in_order.keys() == {"MessageId", "MD5OfMessageBody", "SequenceNumber"}
    assert in_order["SequenceNumber"].isdecimal()


@spec("send.delay-overrides")
async def test_a_messages_own_delay(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue(DelaySeconds="5")
    await wire.send(url, "queue's")
    await wire.send(url, "none", DelaySeconds=0)
    await wire.send(url, "longest", DelaySeconds=900)
    assert [message["Body"] for message in await wire.receive(url)] == ["none"]
    sqs.advance(5.1)
    assert [message["Body"] for message in await wire.receive(url)] == ["queue's"]
    sqs.advance(894)
    assert "longest" not in await sqs.bodies(url, VisibilityTimeout=0)
    sqs.advance(1)
    assert "longest" in await sqs.bodies(url)


@spec("fifo.delay-of-the-queue")
@spec("send.delay-zero-on-fifo")
async def test_a_delay_of_zero_on_a_fifo_queue(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo", DelaySeconds="5")
    await wire.send(url, DelaySeconds=0, MessageGroupId="g", MessageDeduplicationId="d")
    assert await wire.receive(url) == []
    sqs.advance(5.1)
    assert len(await wire.receive(url)) == 1


@spec("send.dedup-by-content")
async def test_no_id_is_needed_where_the_content_is_one(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true")
    first, second = [await wire.send(url, MessageGroupId="g") for _ in range(2)]
    assert first["MessageId"] == second["MessageId"]


@spec("order.queue-first")
async def test_the_queue_is_looked_for_before_anything_else(wire: Wire) -> None:
    text = "The specified queue does not exist" + (" for this wsdl version." if wire.protocol == "query" else ".")
    no_queue = Refusal(400, "AWS.SimpleQueueService.NonExistentQueue", "com.amazonaws.sqs#QueueDoesNotExist", text)
    await wire.refuses(no_queue, "SendMessage", QueueUrl="absent", MessageBody="\x00", DelaySeconds=901)
    await wire.refuses(no_queue, "ReceiveMessage", QueueUrl="absent", MaxNumberOfMessages=0)
    await wire.refuses(no_queue, "SendMessageBatch", QueueUrl="absent", Entries=[])
    await wire.refuses(no_queue, "DeleteMessage", QueueUrl="absent", ReceiptHandle="garbage")


@spec("order.authorisation-before-arguments")
async def test_a_stranger_is_refused_whatever_is_sent(sqs: Sqs, door: Door) -> None:
    url = await sqs.queue()
    wrong: dict[str, dict[str, Any]] = {
        "SendMessage": text("\x00"),
        "ReceiveMessage": {"MaxNumberOfMessages": 0},
        "SendMessageBatch": {"Entries": []},
        "DeleteMessage": {},
    }
    for action, members in wrong.items():
        reply = await door.json(action, key=STRANGER, QueueUrl=url, **members)
        assert reply.fault[:2] == (403, "AccessDenied;Sender")
