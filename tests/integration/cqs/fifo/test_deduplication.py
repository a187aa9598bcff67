"""FIFO queues: what is a duplicate, for how long, and in which scope."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs


async def queue(sqs: Sqs, **attributes: str) -> str:
    return await sqs.queue("q.fifo", **({"ContentBasedDeduplication": "true"} | attributes))


async def send(sqs: Sqs, url: str, body: str, group: str = "g", **members: Any) -> tuple[str, str]:
    """(MessageId, SequenceNumber)"""
    sent = await sqs.send(url, body, MessageGroupId=group, **members)
    return sent["MessageId"], sent["SequenceNumber"]


@pytest.mark.spec("dedup.within-a-batch", "dedup.answer")
async def test_within_a_batch(sqs: Sqs) -> None:
    url = await queue(sqs)
    bodies = ["a", "b", "a"]
    entries = [{"Id": str(n), "MessageBody": body, "MessageGroupId": "g"} for n, body in enumerate(bodies)]
    answer = await sqs("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert answer["Failed"] == []
    first, _, third = answer["Successful"]
    assert third == first | {"Id": "2"}
    assert await sqs.bodies(url) == ["a", "b"]


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
    attributes = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes=attributes)
    for group in ("b", "c", "b"):
        await send(sqs, url, group, group, MessageDeduplicationId="d")
    assert sorted(await sqs.bodies(url)) == ["a", "b", "c"]
