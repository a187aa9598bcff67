"""Batches on the wire: errors of the whole request and their order, then errors of entries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs
from tests.integration.cqs.sqs_wire import Refusal, Wire, Wires, invalid, invalid_value, legacy, missing

spec = pytest.mark.spec

Entry = dict[str, Any]

NOUNS = {
    "SendMessageBatch": "SendMessageBatchRequestEntry",
    "DeleteMessageBatch": "DeleteMessageBatchRequestEntry",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibilityBatchRequestEntry",
}
FIT: dict[str, Entry] = {
    "SendMessageBatch": {"MessageBody": "x"},
    "DeleteMessageBatch": {"ReceiptHandle": "h"},
    "ChangeMessageVisibilityBatch": {"ReceiptHandle": "h", "VisibilityTimeout": 1},
}
"""The members that an entry needs besides its Id."""
TOO_MANY = legacy("TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent 11.")
BAD_ID = legacy(
    "InvalidBatchEntryId",
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long.",
)
REPEATED = legacy("BatchEntryIdsNotDistinct", "Id idA repeated.")
NO_GROUP = invalid_value("The request must contain the parameter MessageGroupId.")
NO_DEDUPLICATION = invalid_value(
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
DELAY = invalid("DelaySeconds", 1, "The request include parameter that is not valid for this queue type.")
COLOR = {"color": {"DataType": "String", "StringValue": "blue"}}
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}


def too_long(size: int) -> Refusal:
    text = f"Batch requests cannot be longer than 1048576 bytes. You have sent {size} bytes."
    return legacy("BatchRequestTooLong", text)


def entries(n: int, **members: Any) -> list[Entry]:
    return [{"Id": f"id{i}", "MessageBody": f"body {i}", **members} for i in range(n)]


def ids(answers: list[Entry]) -> list[str]:
    return [answer["Id"] for answer in answers]


# -- answers ----------------------------------------------------------------------------------------------------------


@spec("batch.ten", "batch.answer-sent", "batch.answer-of-id-alone")
async def test_all_of_ten(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    sent = await wire("SendMessageBatch", QueueUrl=url, Entries=entries(10))
    assert sent.keys() == {"Successful"}
    assert ids(sent["Successful"]) == [f"id{i}" for i in range(10)]
    assert {name for one in sent["Successful"] for name in one} == {"Id", "MessageId", "MD5OfMessageBody"}
    messages = await wire.receive(url)
    assert {m["MessageId"] for m in messages} == {one["MessageId"] for one in sent["Successful"]}
    wishes = [{"Id": f"m{i}", "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
    successful = {"Successful": [{"Id": wish["Id"]} for wish in wishes]}
    hidden = [wish | {"VisibilityTimeout": 100} for wish in wishes]
    assert await wire("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=hidden) == successful
    sqs.advance(50)
    assert await sqs.receive(url) == []
    assert await wire("DeleteMessageBatch", QueueUrl=url, Entries=wishes) == successful
    assert await sqs.counts(url) == (0, 0, 0)


@spec("batch.fifo-order", "batch.answer-sequence", "fifo.order-of-sends")
async def test_fifo_entries_keep_their_order(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true")
    sent = await wire("SendMessageBatch", QueueUrl=url, Entries=entries(10, MessageGroupId="g", DelaySeconds=0))
    sequences = [one["SequenceNumber"] for one in sent["Successful"]]
    assert sequences == sorted(set(sequences))
    assert await sqs.bodies(url) == [f"body {i}" for i in range(10)]


@spec("batch.answer-digests")
async def test_digests_of_entries(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    (plain,) = (await wire("SendMessageBatch", QueueUrl=url, Entries=entries(1)))["Successful"]
    given = entries(1, MessageAttributes=COLOR, MessageSystemAttributes=TRACE)
    (full,) = (await wire("SendMessageBatch", QueueUrl=url, Entries=given))["Successful"]
    assert full["MD5OfMessageAttributes"] == "da1b33cc3cbfe8b1630921e78e6b9880"
    assert full.keys() - plain.keys() == {"MD5OfMessageAttributes", "MD5OfMessageSystemAttributes"}


@pytest.mark.parametrize(
    ("entry", "code", "text"),
    [
        pytest.param(
            {"MessageBody": ""},
            "EmptyValue",
            "No Value Found for SendMessageBatchRequestEntry.1.MessageBody.",
            marks=spec("batch.entry-empty"),
        ),
        pytest.param(
            {"MessageBody": "x" * 1025},
            "InvalidParameterValue",
            "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.",
            marks=spec("batch.entry-too-long"),
        ),
        pytest.param(
            {"MessageBody": "\x00"},
            "InvalidMessageContents",
            "Invalid characters found. Valid unicode characters are "
            "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
            marks=spec("batch.entry-characters"),
        ),
        pytest.param(
            {"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "String", "StringListValues": ["x"]}}},
            "AWS.SimpleQueueService.UnsupportedOperation",
            "Message attribute list values in SendMessage operation are not supported.",
            marks=spec("batch.entry-lists"),
        ),
        pytest.param(
            {"MessageBody": "x", "MessageGroupId": "a b"},
            "InvalidParameterValue",
            "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length",
            marks=spec("batch.entries-alone"),
        ),
        pytest.param(
            {"MessageBody": "x", "MessageDeduplicationId": "d"},
            "InvalidParameterValue",
            "The request include parameter that is not valid for this queue type",
            marks=spec("batch.entries-alone"),
        ),
        pytest.param(
            {"MessageBody": "x", "DelaySeconds": 901},
            "InvalidParameterValue",
            "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
            marks=spec("batch.entries-alone"),
        ),
    ],
)
@spec("batch.answer-failed")
async def test_an_entry_fails_alone(sqs: Sqs, wire: Wire, entry: Entry, code: str, text: str) -> None:
    url = await sqs.queue(MaximumMessageSize="1024")
    answer = await wire("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "bad", **entry}, *entries(1)])
    assert answer["Failed"] == [{"Id": "bad", "SenderFault": True, "Code": code, "Message": text}]
    assert ids(answer["Successful"]) == ["id0"]
    assert await sqs.bodies(url) == ["body 0"]


@spec("batch.all-may-fail")
async def test_all_entries_may_fail(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    answer = await wire("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "\x00"}])
    assert answer.keys() == {"Failed"}
    assert ids(answer["Failed"]) == ["a"]


@pytest.mark.parametrize("wire", ["json"], indirect=True)  # SDKs cannot write this in the query protocol
@spec("batch.answer-failed")
async def test_a_failure_quotes_characters_invalid_in_xml(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    system = {"\ud800": {"DataType": "String", "StringValue": "v"}}
    given = [{"Id": "a", "MessageBody": "x", "MessageSystemAttributes": system}]
    (failed,) = (await wire("SendMessageBatch", QueueUrl=url, Entries=given))["Failed"]
    assert failed["Message"] == "Message system attribute name '\uffff' is invalid."


@spec("batch.entry-handle", "batch.entry-timeout")
async def test_handles_fail_alone(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    (message,) = await sqs.receive(url)
    good = {"Id": "good", "ReceiptHandle": message["ReceiptHandle"]}
    bad = {"Id": "bad", "ReceiptHandle": "garbage"}
    hide = {"VisibilityTimeout": 5}
    none = {"Id": "none"} | hide
    late = good | {"Id": "late", "VisibilityTimeout": 43_201}
    failure = {
        "Id": "bad",
        "SenderFault": True,
        "Code": "ReceiptHandleIsInvalid",
        "Message": 'The input receipt handle "garbage" is not a valid receipt handle.',
    }
    hidden = await wire("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=[bad | hide, good | hide, none, late])
    assert hidden["Successful"] == [{"Id": "good"}]
    assert hidden["Failed"][0] == failure
    assert [(one["Id"], one["Code"]) for one in hidden["Failed"][1:]] == [
        ("none", "ReceiptHandleIsInvalid"),
        ("late", "InvalidParameterValue"),
    ]
    deleted = await wire("DeleteMessageBatch", QueueUrl=url, Entries=[bad, good])
    assert deleted == {"Successful": [{"Id": "good"}], "Failed": [failure]}


# -- the whole request ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", NOUNS)
@spec("batch.no-entries")
async def test_no_entries(sqs: Sqs, wires: Wires, action: str) -> None:
    text = f"There should be at least one {NOUNS[action]} in the request."
    await wires.refuses(legacy("EmptyBatchRequest", text), action, QueueUrl=await sqs.queue(), Entries=[])


@pytest.mark.parametrize("action", NOUNS)
@pytest.mark.parametrize(
    ("entry_ids", "refusal"),
    [
        pytest.param([str(i) for i in range(11)], TOO_MANY, marks=spec("batch.eleven")),
        *[pytest.param([bad], BAD_ID, marks=spec("batch.id-form")) for bad in ("", "a b", "a.b", "\u00fc", "x" * 81)],
        pytest.param(["idA", "x" * 80, "idA"], REPEATED, marks=spec("batch.id-repeated")),
        pytest.param([" "] * 11, TOO_MANY, marks=spec("batch.order-number-first")),
        pytest.param(["idA", "a b", "idA"], BAD_ID, marks=spec("batch.order-entry-by-entry")),
        pytest.param(["idA", "idA", "a b"], REPEATED, marks=spec("batch.order-entry-by-entry")),
    ],
)
async def test_whole_request(sqs: Sqs, wires: Wires, action: str, entry_ids: list[str], refusal: Refusal) -> None:
    given = [{"Id": entry_id, **FIT[action]} for entry_id in entry_ids]
    await wires.refuses(refusal, action, QueueUrl=await sqs.queue(), Entries=given)


@pytest.mark.parametrize("action", NOUNS)
@spec("batch.id-missing")
async def test_every_entry_needs_an_id(sqs: Sqs, wires: Wires, action: str) -> None:
    given = [{"Id": "a", **FIT[action]}, FIT[action]]
    await wires.refuses(missing(f"{NOUNS[action]}.2.Id"), action, QueueUrl=await sqs.queue(), Entries=given)


@pytest.mark.parametrize(
    ("entry", "refusal"),
    [
        pytest.param({"MessageDeduplicationId": "d"}, NO_GROUP, marks=spec("batch.fifo-group")),
        pytest.param({"MessageGroupId": "g"}, NO_DEDUPLICATION, marks=spec("batch.fifo-dedup")),
        pytest.param(
            {"MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": 1},
            DELAY,
            marks=spec("batch.fifo-delay"),
        ),
        pytest.param({}, NO_DEDUPLICATION, marks=spec("batch.order-dedup-before-group")),
        pytest.param({"Id": "a b"}, BAD_ID, marks=spec("batch.order-id-before-fifo")),
        pytest.param({"Id": "good"}, NO_DEDUPLICATION, marks=spec("batch.order-fifo-before-repeated")),
    ],
)
async def test_fifo_faults_of_the_whole_request(sqs: Sqs, wires: Wires, entry: Entry, refusal: Refusal) -> None:
    url = await sqs.queue("q.fifo")
    good = {"Id": "good", "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "good"}
    given = [good, {"Id": "bad", "MessageBody": "x", **entry}]
    await wires.refuses(refusal, "SendMessageBatch", QueueUrl=url, Entries=given)
    assert await sqs.receive(url) == []


@spec("batch.size", "batch.order-repeated-before-size", "batch.order-size-before-entries")
async def test_size_of_all(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue(MaximumMessageSize="1024")
    given = [{"Id": str(i), "MessageBody": "x" * 131_072} for i in range(8)]
    over = {"Id": "9", "MessageBody": "\x00"}
    await wire.refuses(too_long(1_048_577), "SendMessageBatch", QueueUrl=url, Entries=[*given, over])
    repeated = [*given, over | {"Id": "idA"}, over | {"Id": "idA"}]
    await wire.refuses(REPEATED, "SendMessageBatch", QueueUrl=url, Entries=repeated)
    answer = await wire("SendMessageBatch", QueueUrl=url, Entries=given)  # the queue's own limit applies to each entry
    assert len(answer["Failed"]) == 8


@spec("batch.size-of-attributes")
async def test_attributes_count_in_the_size_of_all(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    attributes = {"ab": {"DataType": "Binary", "BinaryValue": b"x" * 91}}
    given = [{"Id": "a", "MessageBody": "x" * (1_048_576 - 99), "MessageAttributes": attributes}]
    assert "Failed" not in await wire("SendMessageBatch", QueueUrl=url, Entries=given)
    given.append({"Id": "b", "MessageBody": "\u00fc"})
    await wire.refuses(too_long(1_048_578), "SendMessageBatch", QueueUrl=url, Entries=given)


@spec("batch.change-needs-a-timeout")
async def test_a_change_of_visibility_needs_a_timeout(sqs: Sqs, wires: Wires) -> None:
    url = await sqs.queue()
    given = [{"Id": "a", "ReceiptHandle": "h", "VisibilityTimeout": 1}, {"Id": "b", "ReceiptHandle": "h"}]
    await wires.refuses(missing("VisibilityTimeout"), "ChangeMessageVisibilityBatch", QueueUrl=url, Entries=given)
