"""A message's way through a standard queue, and its counts meanwhile."""

from __future__ import annotations

import hashlib

import pytest

from tests.integration.cqs.sqs import Sqs


async def test_send_receive_delete(sqs: Sqs) -> None:
    url = await sqs.queue()
    sent = await sqs.send(url, "gr\u00fc\u00dfe")
    assert sent == {
        "MessageId": sent["MessageId"],
        "MD5OfMessageBody": hashlib.md5("gr\u00fc\u00dfe".encode()).hexdigest(),
    }
    (message,) = await sqs.receive(url)
    assert message == {
        "MessageId": sent["MessageId"],
        "ReceiptHandle": message["ReceiptHandle"],
        "MD5OfBody": sent["MD5OfMessageBody"],
        "Body": "gr\u00fc\u00dfe",
    }
    assert await sqs.receive(url) == []
    await sqs.delete(url, message)
    await sqs.delete(url, message)
    sqs.advance(31)
    assert await sqs.receive(url) == []
    assert await sqs.counts(url) == (0, 0, 0)


@pytest.mark.spec("attribute.counts")
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
