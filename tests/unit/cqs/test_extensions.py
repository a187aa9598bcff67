"""Settle and Deliver: how they read their requests, and which requests they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cns_common.aws.call import Call, root_caller
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, RequestError, StoreFull
from cqs.engines.contract import Change, Entry, Outcome, RejectedEntry, SentEntry, Settlement, SettlementResult
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.internal_api import extended_model
from cqs.internal_queues import internal_ref
from cqs.messages.receipt_handle import ReceiptHandles
from cqs.operations.deliver import DeliverOperations
from cqs.operations.settle import SettleOperations
from cqs.queues.cache import QueueCache
from cqs.topic_sender import TopicMessage

JOBS = internal_ref("publish-jobs")
OTHERS = internal_ref("endpoint-jobs")
CALL = Call(caller=root_caller("cns"), region="us-east-1", request_id="r", base_url="http://localhost")
KEY = b"key"
HANDLE = ReceiptHandles(KEY, JOBS.id).make(1, b"handle")
SEND = {"Queue": "publish-jobs", "MessageId": "id", "Body": "am9i"}
CHANGE = {"Queue": "publish-jobs", "ReceiptHandle": HANDLE, "VisibleInMs": 1}
DELETE = {"Queue": "publish-jobs", "ReceiptHandle": HANDLE}
ENTRY = {"QueueArn": "arn:aws:sqs:r:1:q", "TopicArn": "arn:aws:sns:r:1:t", "MessageBody": "m"}


class RecordingEngine:
    """As much of an engine as a settlement needs."""

    capabilities = EmbeddedEngine.capabilities

    def __init__(self, answer: SettlementResult | None = None) -> None:
        self.answer = answer
        self.settled: list[tuple[Settlement, int]] = []

    async def settle(self, settlement: Settlement, now_ms: int) -> SettlementResult:
        self.settled.append((settlement, now_ms))
        return self.answer or SettlementResult(
            tuple([Outcome.DONE] * len(settlement.deletes)),
            tuple([SentEntry(entry.id, 1) for _, entry in settlement.sends]),
            tuple([Outcome.DONE] * len(settlement.changes)),
        )


class NoStore:
    """Internal queues have no records."""

    def __init__(self) -> None:
        self.changed: list[Callable[[object], None]] = []


async def settle(engine: RecordingEngine, members: object) -> dict[str, Any]:
    model = extended_model().operations["Settle"]
    cache = QueueCache(NoStore(), {"e": engine}, "e", KEY)  # type: ignore[arg-type,dict-item]  # see their docstrings
    result = await SettleOperations(cache, Clock()).settle(CALL, model.parse_json(json.dumps(members).encode()))
    rendered: dict[str, Any] = json.loads(model.render_json(result))
    return rendered


async def test_a_settlement_reaches_the_engine() -> None:
    engine = RecordingEngine()
    changed = {**CHANGE, "Body": "cmVzdA=="}
    members = {"Deletes": [DELETE], "Sends": [{**SEND, "Queue": "endpoint-jobs", "Group": "g", "DelayMs": 5}]}
    answer = await settle(engine, {**members, "Changes": [changed, CHANGE]})
    assert answer == {"Deletes": ["DONE"], "Sends": ["SENT"], "Changes": ["DONE", "DONE"]}
    ((settlement, now_ms),) = engine.settled
    assert settlement == Settlement(
        ((JOBS, b"handle"),),
        ((OTHERS, Entry("id", b"job", now_ms, now_ms + 5, "g")),),
        ((JOBS, Change(b"handle", now_ms + 1, b"rest")), (JOBS, Change(b"handle", now_ms + 1))),
    )


async def test_answers_are_the_engines() -> None:
    outcomes = tuple(Outcome)
    sends = (SentEntry("a", 1), RejectedEntry(), RejectedEntry("another_rejected"))
    answer = await settle(
        RecordingEngine(SettlementResult(outcomes, sends, outcomes[::-1])), {"Sends": [SEND] * len(sends)}
    )
    names = ["DONE", "GONE", "STALE", "EXPIRED", "MALFORMED"]
    assert answer == {
        "Deletes": names,
        "Sends": ["SENT", "NO_SUCH_QUEUE", "ANOTHER_REJECTED"],
        "Changes": names[::-1],
    }


async def test_sends_in_order_are_told_with_their_numbers() -> None:
    """Handles of other queues are malformed."""
    sends = (SentEntry("a", 1), SentEntry("b", 2), SentEntry("c", 1, duplicate=True))
    in_order = {**SEND, "Queue": "jobs.fifo", "Dedup": "d"}
    engine = RecordingEngine(SettlementResult((), sends, ()))
    answer = await settle(engine, {"Sends": [SEND, in_order, in_order]})
    assert answer["InOrder"] == [
        {"MessageId": "b", "SequenceNumber": "10000000000000000002", "Duplicate": False},
        {"MessageId": "c", "SequenceNumber": "10000000000000000001", "Duplicate": True},
    ]
    assert [entry.dedup for _, entry in engine.settled[0][0].sends] == ["", "d", "d"]


@pytest.mark.parametrize(
    "handle",
    ["x", "A" * 100, "ä", ReceiptHandles(KEY, OTHERS.id).make(1, b"handle"), "A" * 1_028],
)
async def test_what_is_no_handle_is_left_to_the_engine(handle: str) -> None:
    """One invalid entry must not fail the others."""
    engine = RecordingEngine()
    await settle(engine, {"Deletes": [{**DELETE, "ReceiptHandle": handle}, DELETE]})
    assert engine.settled[0][0].deletes == ((JOBS, b""), (JOBS, b"handle"))


def without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {member: value for member, value in members.items() if member != name}


TOO_LARGE = "A" * (2 * 1_048_576 // 3 * 4 + 8)


@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        ({}, "EmptyBatchRequest", "There should be at least one entry in the request."),
        ({"Deletes": [], "Sends": None}, "EmptyBatchRequest", "There should be at least one entry in the request."),
        (
            {"Sends": [SEND] * 600, "Deletes": [DELETE] * 401},
            "TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 1000. You have sent 1001.",
        ),
        ({"Deletes": [without(DELETE, "Queue")]}, "MissingParameter", "The request must contain the parameter Queue."),
        ({"Sends": [{**SEND, "Queue": ""}]}, "MissingParameter", "The request must contain the parameter Queue."),
        ({"Sends": [{**SEND, "Queue": "a b"}]}, "QueueDoesNotExist", "The specified queue does not exist."),
        ({"Sends": [{**SEND, "Queue": "q" * 81}]}, "QueueDoesNotExist", "The specified queue does not exist."),
        ({"Sends": [without(SEND, "Body")]}, "MissingParameter", "The request must contain the parameter Body."),
        (
            {"Sends": [without(SEND, "MessageId")]},
            "MissingParameter",
            "The request must contain the parameter MessageId.",
        ),
        (
            {"Sends": [{**SEND, "Body": TOO_LARGE}]},
            "InvalidParameterValue",
            "One or more parameters are invalid. Reason: Body must be within 2097152 bytes.",
        ),
        (
            {"Sends": [{**SEND, "DelayMs": 3_600_001}]},
            "InvalidParameterValue",
            "Value 3600001 for parameter DelayMs is invalid. Reason: Must be >= 0 and <= 3600000.",
        ),
        (
            {"Sends": [{**SEND, "DelayMs": -1}]},
            "InvalidParameterValue",
            "Value -1 for parameter DelayMs is invalid. Reason: Must be >= 0 and <= 3600000.",
        ),
        (
            {"Deletes": [without(DELETE, "ReceiptHandle")]},
            "MissingParameter",
            "The request must contain the parameter ReceiptHandle.",
        ),
        (
            {"Changes": [without(CHANGE, "VisibleInMs")]},
            "MissingParameter",
            "The request must contain the parameter VisibleInMs.",
        ),
        (
            {"Changes": [{**CHANGE, "VisibleInMs": 43_200_001}]},
            "InvalidParameterValue",
            "Value 43200001 for parameter VisibleInMs is invalid. Reason: Must be >= 0 and <= 43200000.",
        ),
        (
            {"Changes": [{**CHANGE, "Body": TOO_LARGE}]},
            "InvalidParameterValue",
            "One or more parameters are invalid. Reason: Body must be within 2097152 bytes.",
        ),
        ({"Sends": [{**SEND, "Body": 1}]}, "SerializationException", "NUMBER_VALUE can not be converted to a Blob"),
        ({"Sends": [{**SEND, "Body": "a*=="}]}, "SerializationException", "Invalid Base64 character"),
        ({"Sends": {}}, "SerializationException", "Start of structure or map found where not expected."),
        ({"Sends": [[]]}, "SerializationException", "Start of list found where not expected"),
    ],
)
async def test_what_settle_refuses(members: object, code: str, text: str) -> None:
    engine = RecordingEngine()
    with pytest.raises(RequestError) as refused:
        await settle(engine, members)
    assert (refused.value.code, refused.value.message) == (code, text)
    assert engine.settled == []


@pytest.mark.parametrize(("name", "limit"), [("MessageId", 1_024), ("Group", 1_024)])
async def test_long_names(name: str, limit: int) -> None:
    await settle(RecordingEngine(), {"Sends": [{**SEND, name: "x" * limit}]})
    with pytest.raises(RequestError):
        await settle(RecordingEngine(), {"Sends": [{**SEND, name: "x" * (limit + 1)}]})


# -- Deliver ----------------------------------------------------------------------------------------------------------


class Queues:
    """Replaces `TopicSender`: accepts each message, or fails as configured."""

    def __init__(self, failures: Sequence[Exception | None] = ()) -> None:
        self.failures = list(failures)
        self.sent: list[dict[str, Any]] = []

    async def send(self, queue_arn: str, messages: Sequence[TopicMessage], **more: Any) -> list[str | RequestError]:
        answers: list[str | RequestError] = []
        for message in messages:
            failure = self.failures.pop(0) if self.failures else None
            if isinstance(failure, RequestError):
                answers.append(failure)
                continue
            if failure is not None:
                raise failure
            self.sent.append({"QueueArn": queue_arn, **message._asdict(), **more})
            answers.append(f"id-{len(self.sent)}")
        return answers


async def deliver(queues: Queues, members: object) -> dict[str, Any]:
    model = extended_model().operations["Deliver"]
    operations = DeliverOperations(queues)  # type: ignore[arg-type]  # see Queues
    result = await operations.deliver(CALL, model.parse_json(json.dumps(members).encode()))
    rendered: dict[str, Any] = json.loads(model.render_json(result))
    return rendered


async def test_a_delivery_is_a_send_message() -> None:
    queues = Queues()
    attributes = {"a": {"DataType": "Binary", "BinaryValue": "AP8="}}
    of_message = {"MessageAttributes": attributes, "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    answer = await deliver(queues, {"Entries": [{**ENTRY, **of_message, "TraceHeader": "Root=1"}, ENTRY]})
    assert answer == {"Results": [{"MessageId": "id-1"}, {"MessageId": "id-2"}]}
    topic = {"topic_arn": ENTRY["TopicArn"], "enforced": True}
    members = {
        "MessageBody": "m",
        "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}},
        "MessageGroupId": "g",
        "MessageDeduplicationId": "d",
    }
    plain = {"QueueArn": ENTRY["QueueArn"], **topic}
    assert queues.sent == [
        {**plain, "members": members, "trace_header": "Root=1"},
        {**plain, "members": {"MessageBody": "m"}, "trace_header": ""},
    ]


async def test_each_delivery_has_its_own_answer() -> None:
    queues = Queues([RequestError("AccessDenied", "no"), None, StoreFull("full"), OutcomeUnknown("lost")])
    answer = await deliver(queues, {"Entries": [ENTRY, ENTRY, {**ENTRY, "QueueArn": "b"}, {**ENTRY, "QueueArn": "c"}]})
    assert answer["Results"] == [
        {"Code": "AccessDenied", "Message": "no"},
        {"MessageId": "id-1"},
        {"Code": "ServiceUnavailable", "Message": "full"},
        {"Code": "InternalError", "Message": "lost"},
    ]


async def test_the_store_takes_all_of_a_queue_or_none() -> None:
    queues = Queues([None, StoreFull("full")])
    answer = await deliver(queues, {"Entries": [ENTRY, {**ENTRY, "QueueArn": "b"}, ENTRY]})
    full = {"Code": "ServiceUnavailable", "Message": "full"}
    assert answer["Results"] == [full, {"MessageId": "id-2"}, full]


@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        ({}, "EmptyBatchRequest", "There should be at least one entry in the request."),
        (
            {"Entries": [ENTRY] * 101},
            "TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 100. You have sent 101.",
        ),
        (
            {"Entries": [ENTRY, without(ENTRY, "QueueArn")]},
            "MissingParameter",
            "The request must contain the parameter QueueArn.",
        ),
        (
            {"Entries": [{**ENTRY, "TopicArn": ""}]},
            "MissingParameter",
            "The request must contain the parameter TopicArn.",
        ),
        (
            {"Entries": [{**ENTRY, "MessageBody": 1}]},
            "SerializationException",
            "NUMBER_VALUE can not be converted to a String",
        ),
        (
            {"Entries": [{**ENTRY, "MessageAttributes": []}]},
            "SerializationException",
            "Start of list found where not expected",
        ),
    ],
)
async def test_what_deliver_refuses(members: object, code: str, text: str) -> None:
    queues = Queues()
    with pytest.raises(RequestError) as refused:
        await deliver(queues, members)
    assert (refused.value.code, refused.value.message) == (code, text)
    assert queues.sent == []
