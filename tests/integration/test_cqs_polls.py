"""Long polls: what wakes them, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.sqs import Sqs

Wake = Callable[[Sqs, str, dict[str, Any]], Awaitable[None]]


async def by_send(sqs: Sqs, url: str, held: dict[str, Any]) -> None:
    await sqs.send(url, "woken", MessageGroupId="other")


async def by_delay(sqs: Sqs, url: str, held: dict[str, Any]) -> None:
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "5"})
    await sqs.send(url, "woken", MessageGroupId="other")
    sqs.advance(5.1)


async def by_expiry(sqs: Sqs, url: str, held: dict[str, Any]) -> None:
    sqs.advance(10.1)


async def by_change(sqs: Sqs, url: str, held: dict[str, Any]) -> None:
    await sqs.hide(url, held, 0)


@pytest.mark.parametrize("name", ["q", "q.fifo"])
@pytest.mark.parametrize("wake", [by_send, by_delay, by_expiry, by_change])
async def test_woken(sqs: Sqs, name: str, wake: Wake) -> None:
    fifo = {"ContentBasedDeduplication": "true"} if name.endswith(".fifo") else {}
    url = await sqs.queue(name, VisibilityTimeout="10", **fifo)
    await sqs.send(url, "held", MessageGroupId="g")
    (held,) = await sqs.receive(url)
    poll = await sqs.poll(url)
    await wake(sqs, url, held)
    (message,) = await poll
    assert message["Body"] == ("woken" if wake in (by_send, by_delay) else "held")


async def test_woken_by_a_group_that_unlocks(sqs: Sqs) -> None:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true")
    await sqs.send(url, "1", MessageGroupId="g")
    await sqs.send(url, "2", MessageGroupId="g")
    (first,) = await sqs.receive(url, 1)
    poll = await sqs.poll(url)
    await sqs.delete(url, first)
    assert [message["Body"] for message in await poll] == ["2"]


async def test_each_message_wakes_one(sqs: Sqs) -> None:
    url = await sqs.queue()
    polls = [await sqs.poll(url, n=1), await sqs.poll(url, n=1)]
    await sqs.send(url, "one")
    await sqs.send(url, "two")
    assert sorted([message["Body"] for poll in polls for message in await poll]) == ["one", "two"]


async def test_ends_at_its_deadline(sqs: Sqs) -> None:
    url = await sqs.queue(ReceiveMessageWaitTimeSeconds="7")
    poll = await sqs.poll(url)
    explicit = await sqs.poll(url, wait_s=20)
    sqs.engine.waiting.clear()
    by_attribute = asyncio.create_task(sqs.receive(url))
    await sqs.engine.waiting.wait()
    sqs.advance(7.1)
    assert await by_attribute == []
    assert not explicit.done()
    sqs.advance(13)
    assert await explicit == await poll == []


async def test_explicit_zero_is_a_short_poll(sqs: Sqs) -> None:
    url = await sqs.queue(ReceiveMessageWaitTimeSeconds="20")
    assert await sqs.receive(url, WaitTimeSeconds=0) == []


async def test_ends_with_its_queue_and_takes_nothing_of_a_namesake(sqs: Sqs) -> None:
    url = await sqs.queue()
    poll = await sqs.poll(url)
    await sqs("DeleteQueue", QueueUrl=url)
    assert await poll == []
    sqs.advance(61)
    assert await sqs.queue() == url
    await sqs.send(url)
    assert len(await sqs.receive(url)) == 1


async def test_ends_when_the_caller_hangs_up(sqs: Sqs) -> None:
    url = await sqs.queue()
    gone = asyncio.Event()
    poll = await sqs.poll(url, hang_up=gone.wait)
    gone.set()
    assert await poll == []
    await sqs.send(url, "for somebody else")
    assert await sqs.bodies(url) == ["for somebody else"]


async def test_a_message_for_one_that_hung_up_wakes_another(sqs: Sqs) -> None:
    url = await sqs.queue()
    gone = asyncio.Event()
    first = await sqs.poll(url, hang_up=gone.wait)
    second = await sqs.poll(url)
    gone.set()
    await sqs.send(url)
    assert await first == []
    assert len(await second) == 1


async def test_cancelled_poll_passes_its_message_on(sqs: Sqs) -> None:
    url = await sqs.queue()
    first, second = await sqs.poll(url), await sqs.poll(url)
    first.cancel()
    await sqs.send(url)
    assert len(await second) == 1
    with pytest.raises(asyncio.CancelledError):
        await first
