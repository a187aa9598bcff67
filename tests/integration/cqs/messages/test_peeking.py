"""A peek changes nothing and shows each message with its state."""

from __future__ import annotations

from typing import Any

import pytest

from cqs.messages import peek as peeking
from cqs.messages.peek import QueuePeeker
from cqs.operations.peek import HANDLE, PeekOptions, peek
from tests.integration.cqs.sqs import ACCOUNT, Sqs

ALL = PeekOptions(invisible=True, delayed=True)


async def peeked(sqs: Sqs, url: str, shown: PeekOptions = ALL) -> list[dict[str, Any]]:
    name = url.rpartition("/")[2]
    view = await sqs.service.cache.find((ACCOUNT, "us-east-1", name))
    assert view is not None
    messages: list[dict[str, Any]] = (await peek(QueuePeeker(sqs.clock), view, shown))["Messages"]
    return messages


async def states(sqs: Sqs, url: str) -> dict[str, tuple[str, str]]:
    """Body → (IsVisible, IsDelayed)."""
    messages = await peeked(sqs, url)
    return {one["Body"]: (one["Attributes"]["IsVisible"], one["Attributes"]["IsDelayed"]) for one in messages}


async def bodies(sqs: Sqs, url: str, shown: PeekOptions = ALL) -> list[str]:
    return [message["Body"] for message in await peeked(sqs, url, shown)]


async def in_three_states(sqs: Sqs, url: str) -> None:
    await sqs.send(url, "in flight")
    await sqs.receive(url)
    await sqs.send(url, "visible")
    await sqs.send(url, "delayed", DelaySeconds=60)


@pytest.mark.parametrize(
    ("shown", "seen"),
    [
        (PeekOptions(), {"visible"}),
        (PeekOptions(invisible=True), {"visible", "in flight"}),
        (PeekOptions(delayed=True), {"visible", "delayed"}),
        (ALL, {"visible", "in flight", "delayed"}),
    ],
)
async def test_what_is_shown(sqs: Sqs, shown: PeekOptions, seen: set[str]) -> None:
    url = await sqs.queue()
    await in_three_states(sqs, url)
    assert set(await bodies(sqs, url, shown)) == seen


@pytest.mark.spec("localstack.peek-states")
async def test_states(sqs: Sqs) -> None:
    url = await sqs.queue()
    await in_three_states(sqs, url)
    assert await states(sqs, url) == {
        "in flight": ("false", "false"),
        "visible": ("true", "false"),
        "delayed": ("true", "true"),
    }
    (visible,) = await peeked(sqs, url, PeekOptions())
    assert not {"IsVisible", "IsDelayed"} & visible["Attributes"].keys()
    sqs.advance(60)
    assert set((await states(sqs, url)).values()) == {("true", "false")}


@pytest.mark.spec("localstack.peek")
async def test_nothing_changes(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url, "a", MessageAttributes={"k": {"DataType": "String", "StringValue": "v"}})
    for _ in range(3):
        (message,) = await peeked(sqs, url, PeekOptions())
        assert await sqs.counts(url) == (1, 0, 0)
    (received,) = await sqs.receive(url, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert message.pop("ReceiptHandle") == HANDLE
    assert (message["Attributes"].pop("ApproximateReceiveCount"), message["Attributes"]["SentTimestamp"]) == (
        "0",
        received["Attributes"]["SentTimestamp"],
    )
    assert message["Attributes"].pop("ApproximateFirstReceiveTimestamp") == "0"
    assert received["Attributes"].pop("ApproximateReceiveCount") == "1"
    del received["ReceiptHandle"], received["Attributes"]["ApproximateFirstReceiveTimestamp"]
    assert message == received


@pytest.mark.spec("localstack.peek-states")
async def test_a_group_in_flight_is_not_visible(sqs: Sqs) -> None:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true")
    for body, group in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b")):
        await sqs.send(url, body, MessageGroupId=group)
    assert await bodies(sqs, url, PeekOptions()) == ["a1", "b1", "a2", "b2"], "as they were sent"
    (first,) = await sqs.receive(url, 1)
    assert first["Body"] == "a1"
    assert await bodies(sqs, url, PeekOptions()) == ["b1", "b2"]
    shown = await states(sqs, url)
    assert shown == {"a1": ("false", "false"), **dict.fromkeys(("a2", "b1", "b2"), ("true", "false"))}
    await sqs.delete(url, first)
    assert await bodies(sqs, url, PeekOptions()) == ["b1", "a2", "b2"]


async def test_expired_messages_are_not_shown(sqs: Sqs) -> None:
    url = await sqs.queue(MessageRetentionPeriod="60")
    await sqs.send(url, "old")
    sqs.advance(59)
    assert await bodies(sqs, url) == ["old"]
    sqs.advance(1)
    assert await bodies(sqs, url) == []


@pytest.mark.spec("localstack.peek")
async def test_all_pages(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peeking, "PAGE_MESSAGES", 3)
    url = await sqs.queue()
    sent = [str(n) for n in range(10)]
    for body in sent:
        await sqs.send(url, body)
    assert sorted(await bodies(sqs, url)) == sent
    monkeypatch.setattr(peeking, "MESSAGES_MAX", 5)
    assert len(await bodies(sqs, url)) == 6, "whole pages"
    monkeypatch.setattr(peeking, "BODIES_BYTES_MAX", 1)
    assert len(await bodies(sqs, url)) == 3
