"""FIFO queues: answers, group locks and deduplication."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs

SAME = "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"


async def send(sqs: Sqs, url: str, body: str, group: str = "g", **members: Any) -> dict[str, Any]:
    return await sqs.send(url, body, MessageGroupId=group, **members)


async def queue(sqs: Sqs, **attributes: str) -> str:
    return await sqs.queue("q.fifo", **({"ContentBasedDeduplication": "true"} | attributes))


@pytest.mark.spec("dedup.content", "dedup.explicit-id-wins", "dedup.sequence-text")
async def test_answers_and_attributes(sqs: Sqs) -> None:
    url = await queue(sqs)
    first, second = await send(sqs, url, "same"), await send(sqs, url, "other", MessageDeduplicationId="d")
    assert len(first["SequenceNumber"]) == len(second["SequenceNumber"]) == 20
    assert first["SequenceNumber"] < second["SequenceNumber"]
    messages = await sqs.receive(url, AttributeNames=["All"])
    assert hashlib.sha256(b"same").hexdigest() == SAME
    shown = [
        tuple(message["Attributes"][name] for name in ("MessageGroupId", "MessageDeduplicationId", "SequenceNumber"))
        for message in messages
    ]
    assert shown == [("g", SAME, first["SequenceNumber"]), ("g", "d", second["SequenceNumber"])]


@pytest.mark.spec(
    "fifo.group-lock",
    "fifo.other-groups",
    "fifo.several-of-a-group",
    "fifo.send-keeps-lock",
    "fifo.deleted-in-part",
    "fifo.deleted-all",
)
async def test_a_group_in_flight_is_locked(sqs: Sqs) -> None:
    url = await queue(sqs)
    for body in ("a1", "a2", "a3"):
        await send(sqs, url, body, "a")
    await send(sqs, url, "b1", "b")
    first, second = await sqs.receive(url, 2)
    assert (first["Body"], second["Body"]) == ("a1", "a2")
    assert await sqs.bodies(url) == ["b1"]
    await send(sqs, url, "a4", "a")
    await sqs.delete(url, first)
    assert await sqs.bodies(url) == []
    await sqs.delete(url, second)
    assert await sqs.bodies(url) == ["a3", "a4"]


@pytest.mark.spec("dedup.answer", "dedup.nothing-enqueued", "dedup.window", "dedup.after-delete", "dedup.scope-queue")
async def test_deduplication(sqs: Sqs) -> None:
    url = await queue(sqs)
    first = await send(sqs, url, "body", MessageDeduplicationId="d")
    (message,) = await sqs.receive(url)
    await sqs.delete(url, message)
    sqs.advance(299)
    again = await send(sqs, url, "other", "h", MessageDeduplicationId="d")
    assert again == first | {"MD5OfMessageBody": hashlib.md5(b"other").hexdigest()}
    assert await sqs.bodies(url) == []
    sqs.advance(2)
    await send(sqs, url, "new", MessageDeduplicationId="d")
    assert await sqs.bodies(url) == ["new"]
