"""FIFO queues, fair queues and purges as SDKs see them, in both protocols."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs
from tests.integration.cqs.sqs_wire import Wire, invalid, legacy

spec = pytest.mark.spec

WRONG_TYPE = "The request include parameter that is not valid for this queue type."
NUMBERED = {"MessageId", "MD5OfMessageBody", "SequenceNumber"}


@spec("dedup.answer", "dedup.sequence-text")
async def test_a_duplicate_is_answered_like_its_original(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo")
    members = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = await wire.send(url, "one", **members)
    again = await wire.send(url, "two", **members)
    assert set(first) == set(again) == NUMBERED
    assert {name for name in NUMBERED if first[name] != again[name]} == {"MD5OfMessageBody"}
    batch = await wire("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "two", **members}])
    assert batch["Successful"] == [again | {"Id": "a"}]
    (message,) = await wire.receive(url, AttributeNames=["All"])
    assert (message["MessageId"], message["Body"]) == (first["MessageId"], "one")
    shown = message["Attributes"]
    assert (shown["MessageGroupId"], shown["MessageDeduplicationId"]) == ("g", "d")
    assert shown["SequenceNumber"] == first["SequenceNumber"]


@spec("attempt.fifo-only")
@pytest.mark.parametrize("attempt", ["a", "", "not an id"])
async def test_a_standard_queue_ignores_the_attempt(sqs: Sqs, wire: Wire, attempt: str) -> None:
    url = await sqs.queue()
    await sqs.send(url, "x")
    assert len(await wire.receive(url, ReceiveRequestAttemptId=attempt)) == 1
    assert await wire.receive(url, ReceiveRequestAttemptId=attempt) == []


@spec("fair.no-dedup", "fair.group-returned", "fair.no-sequence")
async def test_a_group_on_a_standard_queue(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    refusal = invalid("MessageDeduplicationId", "d", WRONG_TYPE)
    members: dict[str, Any] = {"QueueUrl": url, "MessageBody": "x", "MessageGroupId": "tenant"}
    await wire.refuses(refusal, "SendMessage", MessageDeduplicationId="d", **members)
    for _ in range(2):
        assert set(await wire("SendMessage", **members)) == NUMBERED - {"SequenceNumber"}
    for message in await wire.receive(url, AttributeNames=["MessageGroupId", "SequenceNumber"]):
        assert message["Attributes"] == {"MessageGroupId": "tenant"}
    assert await sqs.counts(url) == (0, 2, 0)


@spec("purge.in-progress", "purge.again", "purge.at-once", "purge.handles")
async def test_a_purge_within_a_minute_of_another(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    (held,) = await sqs.receive(url)
    assert await wire("PurgeQueue", QueueUrl=url) == {}
    assert await sqs.counts(url) == (0, 0, 0)
    await sqs.delete(url, held)
    text = "Only one PurgeQueue operation on q is allowed every 60 seconds."
    sqs.advance(59)
    await wire.refuses(legacy("PurgeQueueInProgress", text, 403), "PurgeQueue", QueueUrl=url)
    sqs.advance(1)
    await wire("PurgeQueue", QueueUrl=url)
