"""ReceiveMessage on the wire: number of messages, visibility, attributes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cqs.engines.contract import IN_FLIGHT_MAX
from tests.integration.cqs.door import JSON, Door
from tests.integration.cqs.sqs import ACCOUNT, Sqs
from tests.integration.cqs.sqs_wire import Refusal, Wire, Wires, invalid, modelled

spec = pytest.mark.spec

THREE = {
    "color": {"DataType": "String", "StringValue": "blue"},
    "count": {"DataType": "Number", "StringValue": "3"},
    "blob": {"DataType": "Binary", "BinaryValue": b"\x01\x02\x03"},
}
OVER_LIMIT = modelled("OverLimit", "The maximum number of in flight messages is reached.", 403)


def number(value: int) -> Refusal:
    return invalid("MaxNumberOfMessages", value, "Must be between 1 and 10, if provided.")


def wait(value: int) -> Refusal:
    return invalid("WaitTimeSeconds", value, "Must be >= 0 and <= 20, if provided.")


def timeout(value: int) -> Refusal:
    return invalid("VisibilityTimeout", value, "Must be >= 0 and <= 43200, if provided.")


def attempt(value: str) -> Refusal:
    name = "ReceiveRequestAttemptId"
    return invalid(name, value, f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length.")


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


@pytest.mark.parametrize(
    ("members", "refusal"),
    [
        *[pytest.param({"MaxNumberOfMessages": n}, number(n), marks=spec("receive.number-range")) for n in (0, 11, -1)],
        *[pytest.param({"WaitTimeSeconds": s}, wait(s), marks=spec("receive.wait-range")) for s in (-1, 21)],
        *[
            pytest.param({"VisibilityTimeout": s}, timeout(s), marks=spec("receive.timeout-range"))
            for s in (-1, 43_201)
        ],
        *[
            pytest.param({"ReceiveRequestAttemptId": text}, attempt(text), marks=spec("receive.attempt-id-form"))
            for text in ("", "a b", "a" * 129)
        ],
    ],
)
async def test_refused(sqs: Sqs, wires: Wires, members: dict[str, Any], refusal: Refusal) -> None:
    url = await sqs.queue("q.fifo")
    await sqs.send(url, MessageGroupId="g", MessageDeduplicationId="d")
    await wires.refuses(refusal, "ReceiveMessage", QueueUrl=url, **members)
    assert await sqs.counts(url) == (1, 0, 0)


@spec("receive.one-by-default", "receive.up-to-ten")
async def test_how_many(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    for n in range(12):
        await sqs.send(url, f"{n:02}")
    assert bodies((await wire("ReceiveMessage", QueueUrl=url))["Messages"]) == ["00"]
    assert bodies(await wire.receive(url)) == [f"{n:02}" for n in range(1, 11)]
    assert bodies(await wire.receive(url)) == ["11"]


@spec("receive.timeout-overrides")
async def test_a_timeout_of_its_own(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue(VisibilityTimeout="100")
    await sqs.send(url)
    await wire.receive(url, VisibilityTimeout=10)
    sqs.advance(10.1)
    assert len(await wire.receive(url)) == 1
    sqs.advance(99)
    assert await wire.receive(url) == []
    sqs.advance(1.1)
    assert len(await wire.receive(url, VisibilityTimeout=43_200)) == 1
    sqs.advance(43_199)
    assert await wire.receive(url) == []
    sqs.advance(1)
    assert len(await wire.receive(url)) == 1


@spec("receive.timeout-zero", "receive.timeout-zero-counts", "handle.new-each-time", "receive.count")
async def test_a_timeout_of_nothing(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    name = "ApproximateReceiveCount"
    seen = [(await wire.receive(url, VisibilityTimeout=0, AttributeNames=[name]))[0] for _ in range(3)]
    assert [message["Attributes"] for message in seen] == [{name: "1"}, {name: "2"}, {name: "3"}]
    assert len({message["ReceiptHandle"] for message in seen}) == 3


@spec("attribute.counts")
@pytest.mark.parametrize("name", ["q", "q.fifo"])
async def test_a_message_is_visible_or_in_flight_or_delayed(sqs: Sqs, name: str) -> None:
    url = await sqs.queue(name)
    for n in range(3):
        ids = {"MessageGroupId": f"{n}", "MessageDeduplicationId": f"{n}"} if name.endswith(".fifo") else {}
        await sqs.send(url, f"{n}", **ids)
    assert await sqs.counts(url) == (3, 0, 0)
    held, _ = await sqs.receive(url, 2)
    assert await sqs.counts(url) == (1, 2, 0)
    await sqs.delete(url, held)
    assert await sqs.counts(url) == (1, 1, 0)
    sqs.advance(31)
    assert await sqs.counts(url) == (2, 0, 0)
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "60"})
    late = {"MessageGroupId": "late", "MessageDeduplicationId": "late"} if name.endswith(".fifo") else {}
    await sqs.send(url, "late", **late)
    visible, in_flight, delayed = await sqs.counts(url)
    assert (in_flight, delayed) == (0, 3 - visible)
    # A FIFO queue's new delay applies to messages that were never received.
    assert delayed == (2 if name.endswith(".fifo") else 1)
    sqs.advance(61)
    assert await sqs.counts(url) == (3, 0, 0)


# -- system attributes ------------------------------------------------------------------------------------------------


@spec("receive.system-all", "receive.sent-timestamp", "receive.first-timestamp", "sender.root")
async def test_all_system_attributes(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    before_ms = sqs.clock.now_ms()
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}
    await wire.send(url, MessageGroupId="tenant", MessageSystemAttributes=trace)
    sent_by_ms = sqs.clock.now_ms()
    sqs.advance(10)
    await wire.receive(url, VisibilityTimeout=0)
    received_by_ms = sqs.clock.now_ms()
    sqs.advance(10)
    (message,) = await wire.receive(url, MessageSystemAttributeNames=["All"])
    attributes = message["Attributes"]
    assert before_ms <= int(attributes.pop("SentTimestamp")) <= sent_by_ms
    assert before_ms + 10_000 <= int(attributes.pop("ApproximateFirstReceiveTimestamp")) <= received_by_ms
    assert attributes == {
        "SenderId": ACCOUNT,
        "ApproximateReceiveCount": "2",
        "AWSTraceHeader": "Root=1",
        "MessageGroupId": "tenant",
    }


@spec("receive.fifo-attributes")
async def test_attributes_of_fifo_messages(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo")
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    sent = await wire.send(url, **ids)
    (message,) = await wire.receive(url, AttributeNames=[*ids, "SequenceNumber"])
    assert message["Attributes"] == ids | {"SequenceNumber": sent["SequenceNumber"]}


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        pytest.param({}, None, marks=spec("receive.system-none")),
        pytest.param({"AttributeNames": ["SequenceNumber"]}, None, marks=spec("receive.system-none")),
        pytest.param({"AttributeNames": ["SenderId"]}, {"SenderId": ACCOUNT}, marks=spec("receive.system-chosen")),
        pytest.param(
            {"MessageSystemAttributeNames": ["SenderId"]}, {"SenderId": ACCOUNT}, marks=spec("receive.system-chosen")
        ),
        pytest.param(
            {"AttributeNames": ["SenderId"], "MessageSystemAttributeNames": ["ApproximateReceiveCount"]},
            {"SenderId": ACCOUNT, "ApproximateReceiveCount": "1"},
            marks=spec("receive.system-union"),
        ),
        pytest.param(
            {"AttributeNames": ["Nonsense", "SenderId", "Policy"]},
            {"SenderId": ACCOUNT},
            marks=spec("receive.system-unknown"),
        ),
    ],
)
async def test_system_attributes(
    sqs: Sqs, wire: Wire, members: dict[str, list[str]], shown: dict[str, str] | None
) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    (message,) = await wire.receive(url, **members)
    assert message.get("Attributes") == shown


@spec("sender.unsigned")
async def test_an_unsigned_senders_id_is_its_address(sqs: Sqs, door: Door) -> None:
    policy = {"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}}
    url = await sqs.queue(Policy=json.dumps(policy))
    body = json.dumps({"QueueUrl": url, "MessageBody": "x"}).encode()
    sent = await door.send("POST", "/", {"content-type": JSON, "x-amz-target": "AmazonSQS.SendMessage"}, body)
    assert sent.status == 200
    (message,) = await sqs.receive(url, AttributeNames=["SenderId"])
    assert message["Attributes"] == {"SenderId": "127.0.0.1"}


# -- message attributes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        pytest.param([], [], marks=spec("receive.names")),
        pytest.param(["count"], ["count"], marks=spec("receive.names")),
        pytest.param(["count", "color"], ["color", "count"], marks=spec("receive.names")),
        pytest.param(["COUNT"], [], marks=spec("receive.names")),
        pytest.param(["All"], ["blob", "color", "count"], marks=spec("receive.names-all")),
        pytest.param([".*"], ["blob", "color", "count"], marks=spec("receive.names-all")),
        pytest.param(["*"], ["blob", "color", "count"], marks=spec("receive.names-all")),
        pytest.param(["x", "*", "color"], ["blob", "color", "count"], marks=spec("receive.names-all")),
        pytest.param(["co.*"], ["color", "count"], marks=spec("receive.names-prefix")),
        pytest.param(["col.*", "blob"], ["blob", "color"], marks=spec("receive.names-prefix")),
        pytest.param(["color.*"], ["color"], marks=spec("receive.names-prefix")),
        pytest.param(["absent", "x.*", "color"], ["color"], marks=spec("receive.names-unmatched")),
        pytest.param(["in valid", "AWS.", "*x", "", "color"], ["color"], marks=spec("receive.names-unmatched")),
    ],
)
async def test_message_attributes(sqs: Sqs, wire: Wire, names: list[str], shown: list[str]) -> None:
    url = await sqs.queue()
    await sqs.send(url, MessageAttributes=THREE)
    (message,) = await wire.receive(url, MessageAttributeNames=names)
    assert message.get("MessageAttributes", {}) == {name: THREE[name] for name in shown}
    assert ("MD5OfMessageAttributes" in message) == bool(shown)


# -- order, limits, age -----------------------------------------------------------------------------------------------


@pytest.fixture
def two_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the most messages in flight."""
    assert IN_FLIGHT_MAX == 120_000
    monkeypatch.setattr("cqs.engines.embedded.receive.IN_FLIGHT_MAX", 2)


@spec("receive.limit-short-poll", "receive.limit-long-poll")
@pytest.mark.usefixtures("two_in_flight")
async def test_in_flight_limit(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    for _ in range(3):
        await sqs.send(url)
    held = await wire.receive(url)
    assert len(held) == 2
    await wire.refuses(OVER_LIMIT, "ReceiveMessage", QueueUrl=url)
    poll = await sqs.poll(url)
    sqs.advance(20.1)
    assert await poll == []
    poll = await sqs.poll(url)
    await sqs.delete(url, held[0])  # one more may be received
    assert len(await poll) == 1


@spec("receive.limit-fifo")
@pytest.mark.usefixtures("two_in_flight")
async def test_in_flight_limit_of_fifo_queues(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo")
    for n in range(3):
        await sqs.send(url, MessageGroupId=str(n), MessageDeduplicationId=str(n))
    held = await wire.receive(url)
    assert len(held) == 2
    assert await wire.receive(url) == []
    await sqs.delete(url, held[0])
    assert len(await wire.receive(url)) == 1
