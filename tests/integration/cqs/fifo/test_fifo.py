"""FIFO queues over the API: deduplication, its scope and answers, repeated receives, and rates.

tests/conformance/fifo shows groups, delays and windows."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs

SAME = "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"
HIGH_THROUGHPUT = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
CALLS = 310


async def send(sqs: Sqs, url: str, body: str, group: str = "g", **members: Any) -> tuple[str, str]:
    """(MessageId, SequenceNumber)"""
    sent = await sqs.send(url, body, MessageGroupId=group, **members)
    return sent["MessageId"], sent["SequenceNumber"]


async def queue(sqs: Sqs, **attributes: str) -> str:
    return await sqs.queue("q.fifo", **({"ContentBasedDeduplication": "true"} | attributes))


@pytest.mark.spec("dedup.content", "dedup.explicit-id-wins", "dedup.sequence-text")
async def test_answers_and_attributes(sqs: Sqs) -> None:
    url = await queue(sqs)
    (_, first), (_, second) = await send(sqs, url, "same"), await send(sqs, url, "other", MessageDeduplicationId="d")
    assert len(first) == len(second) == 20
    assert first < second
    messages = await sqs.receive(url, AttributeNames=["All"])
    assert hashlib.sha256(b"same").hexdigest() == SAME
    shown = [
        tuple(message["Attributes"][name] for name in ("MessageGroupId", "MessageDeduplicationId", "SequenceNumber"))
        for message in messages
    ]
    assert shown == [("g", SAME, first), ("g", "d", second)]


@pytest.mark.spec("dedup.content-without-attributes")
async def test_attributes_do_not_count(sqs: Sqs) -> None:
    url = await queue(sqs)
    original = await send(sqs, url, "x", MessageAttributes={"a": {"DataType": "String", "StringValue": "1"}})
    assert await send(sqs, url, "x") == original
    assert await sqs.bodies(url) == ["x"]


@pytest.mark.spec("dedup.explicit-id-wins")
async def test_an_explicit_id_wins(sqs: Sqs) -> None:
    url = await queue(sqs)
    original = await send(sqs, url, "x", MessageDeduplicationId="a")
    assert await send(sqs, url, "y", MessageDeduplicationId="a") == original
    assert await send(sqs, url, "x", MessageDeduplicationId="b") != original
    assert await send(sqs, url, "x") != original
    assert await sqs.bodies(url) == ["x"] * 3


@pytest.mark.parametrize(
    ("scope", "bodies"),
    [
        pytest.param("queue", ["a"], marks=pytest.mark.spec("dedup.scope-queue")),
        pytest.param("messageGroup", ["a", "b"], marks=pytest.mark.spec("dedup.scope-group")),
    ],
)
async def test_scope(sqs: Sqs, scope: str, bodies: list[str]) -> None:
    url = await queue(sqs, DeduplicationScope=scope, FifoThroughputLimit="perQueue")
    for group in ("a", "b", "a"):
        await send(sqs, url, group, group, MessageDeduplicationId="d")
    assert sorted(await sqs.bodies(url)) == bodies


@pytest.mark.spec("dedup.scope-changed")
async def test_a_new_scope_holds_from_the_next_send_on(sqs: Sqs) -> None:
    url = await queue(sqs)
    await send(sqs, url, "a", "a", MessageDeduplicationId="d")
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes=HIGH_THROUGHPUT)
    for group in ("b", "c", "b"):
        await send(sqs, url, group, group, MessageDeduplicationId="d")
    assert sorted(await sqs.bodies(url)) == ["a", "b", "c"]


@pytest.mark.spec("attempt.same-messages", "attempt.same-handles")
async def test_a_repeated_receive_has_the_same_answer(sqs: Sqs) -> None:
    url = await queue(sqs, VisibilityTimeout="30")
    for body in ("1", "2", "3"):
        await send(sqs, url, body)
    members: dict[str, Any] = {"ReceiveRequestAttemptId": "a", "AttributeNames": ["All"]}
    first = await sqs.receive(url, 2, **members)
    sqs.advance(10)
    assert await sqs.receive(url, 2, **members) == first
    assert await sqs.counts(url) == (1, 2, 0)
    for message in first:
        await sqs.delete(url, message)
    assert await sqs.bodies(url) == ["3"]


@pytest.mark.spec("fifo.no-rate-limit")
@pytest.mark.parametrize("attributes", [{}, HIGH_THROUGHPUT])
async def test_no_rate_is_enforced(sqs: Sqs, attributes: dict[str, Any]) -> None:
    url = await queue(sqs, **attributes)
    await asyncio.gather(*[send(sqs, url, str(number)) for number in range(CALLS)])  # the test clock is stopped
    assert await sqs.counts(url) == (CALLS, 0, 0)
