"""Batches: whole-request checks in their order, then each entry alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sqs import Sqs, refused

Entry = dict[str, Any]


def entries(n: int, **members: Any) -> list[Entry]:
    return [{"Id": f"id{i}", "MessageBody": f"body {i}", **members} for i in range(n)]


def ids(answers: list[Entry]) -> list[str]:
    return [answer["Id"] for answer in answers]


async def test_all_of_ten(sqs: Sqs) -> None:
    url = await sqs.queue()
    sent = await sqs("SendMessageBatch", QueueUrl=url, Entries=entries(10))
    assert sent["Failed"] == []
    assert ids(sent["Successful"]) == [f"id{i}" for i in range(10)]
    assert {name for one in sent["Successful"] for name in one} == {"Id", "MessageId", "MD5OfMessageBody"}
    messages = await sqs.receive(url)
    assert {m["MessageId"] for m in messages} == {one["MessageId"] for one in sent["Successful"]}
    wishes = [{"Id": f"m{i}", "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
    hidden = [wish | {"VisibilityTimeout": 100} for wish in wishes]
    assert ids((await sqs("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=hidden))["Successful"]) == ids(wishes)
    sqs.advance(50)
    assert await sqs.receive(url) == []
    assert ids((await sqs("DeleteMessageBatch", QueueUrl=url, Entries=wishes))["Successful"]) == ids(wishes)
    assert await sqs.counts(url) == (0, 0, 0)


async def test_fifo_entries_keep_their_order(sqs: Sqs) -> None:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true")
    sent = await sqs("SendMessageBatch", QueueUrl=url, Entries=entries(10, MessageGroupId="g"))
    sequences = [one["SequenceNumber"] for one in sent["Successful"]]
    assert sequences == sorted(sequences)
    assert await sqs.bodies(url) == [f"body {i}" for i in range(10)]


async def test_entries_fail_alone(sqs: Sqs) -> None:
    url = await sqs.queue(MaximumMessageSize="1024")
    bad: dict[str, tuple[Entry, str, str]] = {
        "empty": ({"MessageBody": ""}, "EmptyValue", "The request must contain the parameter MessageBody."),
        "long": (
            {"MessageBody": "x" * 1025},
            "InvalidParameterValue",
            "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.",
        ),
        "characters": ({"MessageBody": "\x00"}, "InvalidMessageContents", ""),
        "group": ({"MessageBody": "x", "MessageGroupId": "\ud800"}, "InvalidParameterValue", ""),
        "delay": ({"MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValue", ""),
        "list": (
            {
                "MessageBody": "x",
                "MessageAttributes": {"a": {"DataType": "String", "StringListValues": ["x"]}},
            },
            "AWS.SimpleQueueService.UnsupportedOperation",
            "",
        ),
    }
    given = [*entries(1), *({"Id": entry_id, **entry} for entry_id, (entry, _, _) in bad.items())]
    answer = await sqs("SendMessageBatch", QueueUrl=url, Entries=given)
    assert ids(answer["Successful"]) == ["id0"]
    assert ids(answer["Failed"]) == list(bad)
    for failure in answer["Failed"]:
        _, code, text = bad[failure["Id"]]
        assert (failure["Code"], failure["SenderFault"]) == (code, True)
        assert failure["Message"].startswith(text)
        assert failure["Message"].encode()


async def test_all_entries_may_fail(sqs: Sqs) -> None:
    url = await sqs.queue()
    answer = await sqs("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "\x00"}])
    assert answer["Successful"] == []
    assert ids(answer["Failed"]) == ["a"]


async def test_handles_fail_alone(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    (message,) = await sqs.receive(url)
    good = {"Id": "good", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 5}
    bad = {"Id": "bad", "ReceiptHandle": "garbage", "VisibilityTimeout": 5}
    none = {"Id": "none", "VisibilityTimeout": 5}
    late = good | {"Id": "late", "VisibilityTimeout": 43_201}
    failure = {
        "Id": "bad",
        "SenderFault": True,
        "Code": "ReceiptHandleIsInvalid",
        "Message": 'The input receipt handle "garbage" is not a valid receipt handle.',
    }
    hidden = await sqs("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=[bad, good, none, late])
    assert hidden["Successful"] == [{"Id": "good"}]
    assert hidden["Failed"][0] == failure
    assert [(one["Id"], one["Code"]) for one in hidden["Failed"][1:]] == [
        ("none", "ReceiptHandleIsInvalid"),
        ("late", "InvalidParameterValue"),
    ]
    deleted = await sqs("DeleteMessageBatch", QueueUrl=url, Entries=[bad, good])
    assert deleted == {"Successful": [{"Id": "good"}], "Failed": [failure]}


NOUNS = {
    "SendMessageBatch": "SendMessageBatchRequestEntry",
    "DeleteMessageBatch": "DeleteMessageBatchRequestEntry",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibilityBatchRequestEntry",
}
ENTRY_ID = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)


@pytest.mark.parametrize("action", NOUNS)
@pytest.mark.parametrize(
    ("entry_ids", "code", "text"),
    [
        ([], "EmptyBatchRequest", "There should be at least one {noun} in the request."),
        (
            [str(i) for i in range(11)],
            "TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 10. You have sent 11.",
        ),
        ([""], "InvalidBatchEntryId", ENTRY_ID),
        (["a b"], "InvalidBatchEntryId", ENTRY_ID),
        (["x" * 81], "InvalidBatchEntryId", ENTRY_ID),
        (["idA", "idA"], "BatchEntryIdsNotDistinct", "Id idA repeated."),
    ],
)
async def test_whole_request(sqs: Sqs, action: str, entry_ids: list[str], code: str, text: str) -> None:
    url = await sqs.queue()
    given = [
        {"Id": entry_id, "MessageBody": "x", "ReceiptHandle": "h", "VisibilityTimeout": 1} for entry_id in entry_ids
    ]
    assert await refused(sqs(action, QueueUrl=url, Entries=given)) == (code, text.format(noun=NOUNS[action]))


async def test_size_of_all(sqs: Sqs) -> None:
    url = await sqs.queue(MaximumMessageSize="1024")
    given = [{"Id": str(i), "MessageBody": "\u00fc" * 65_536} for i in range(8)]
    refusal = await refused(sqs("SendMessageBatch", QueueUrl=url, Entries=[*given, {"Id": "9", "MessageBody": "x"}]))
    assert refusal == (
        "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    )
    assert len((await sqs("SendMessageBatch", QueueUrl=url, Entries=given))["Failed"]) == 8


async def test_attributes_count_in_the_size_of_all(sqs: Sqs) -> None:
    url = await sqs.queue()
    attributes = {"ab": {"DataType": "Binary", "BinaryValue": b"x" * 91}}
    given = [{"Id": "a", "MessageBody": "x" * (1_048_576 - 99), "MessageAttributes": attributes}]
    assert (await sqs("SendMessageBatch", QueueUrl=url, Entries=given))["Failed"] == []
    given.append({"Id": "b", "MessageBody": "x"})
    assert (await refused(sqs("SendMessageBatch", QueueUrl=url, Entries=given)))[0] == "BatchRequestTooLong"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"MessageDeduplicationId": "d"}, "The request must contain the parameter MessageGroupId."),
        (
            {"MessageGroupId": "g"},
            "The queue should either have ContentBasedDeduplication enabled "
            "or MessageDeduplicationId provided explicitly",
        ),
        (
            {"MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": 1},
            "Value 1 for parameter DelaySeconds is invalid. "
            "Reason: The request include parameter that is not valid for this queue type.",
        ),
    ],
)
async def test_fifo_faults_of_the_whole_request(sqs: Sqs, entry: Entry, text: str) -> None:
    url = await sqs.queue("q.fifo")
    good = {"Id": "good", "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "good"}
    given = [good, {"Id": "bad", "MessageBody": "x", **entry}]
    assert await refused(sqs("SendMessageBatch", QueueUrl=url, Entries=given)) == ("InvalidParameterValue", text)
    assert await sqs.receive(url) == []
