"""Long polls: what wakes them, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.sqs import Sqs
from tests.integration.sqs_wire import Wire

spec = pytest.mark.spec

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


async def by_send_after_purge(sqs: Sqs, url: str, held: dict[str, Any]) -> None:
    """To the group that was locked."""
    await sqs("PurgeQueue", QueueUrl=url)
    await sqs.send(url, "woken", MessageGroupId="g")


@pytest.mark.parametrize("name", ["q", "q.fifo"])
@pytest.mark.parametrize(
    "wake",
    [
        pytest.param(by_send, marks=spec("poll.woken-by-send")),
        pytest.param(by_delay, marks=spec("poll.woken-by-delay")),
        pytest.param(by_expiry, marks=spec("poll.woken-by-timeout")),
        pytest.param(by_change, marks=spec("poll.woken-by-change")),
        pytest.param(by_send_after_purge, marks=spec("poll.woken-after-purge")),
    ],
)
async def test_woken(sqs: Sqs, name: str, wake: Wake) -> None:
    fifo = {"ContentBasedDeduplication": "true"} if name.endswith(".fifo") else {}
    url = await sqs.queue(name, VisibilityTimeout="10", **fifo)
    await sqs.send(url, "held", MessageGroupId="g")
    (held,) = await sqs.receive(url)
    poll = await sqs.poll(url)
    await wake(sqs, url, held)
    (message,) = await poll
    assert message["Body"] == ("held" if wake in (by_expiry, by_change) else "woken")


@spec("poll.woken-by-unlock")
async def test_woken_by_a_group_that_unlocks(sqs: Sqs) -> None:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true")
    await sqs.send(url, "1", MessageGroupId="g")
    await sqs.send(url, "2", MessageGroupId="g")
    (first,) = await sqs.receive(url, 1)
    poll = await sqs.poll(url)
    await sqs.delete(url, first)
    assert [message["Body"] for message in await poll] == ["2"]


@spec("poll.one-woken")
async def test_each_message_wakes_one(sqs: Sqs) -> None:
    url = await sqs.queue()
    polls = [await sqs.poll(url, n=1) for _ in range(10)]
    before = sqs.engine.receives
    await sqs.send(url, "one")
    await sqs.send(url, "two")
    ended, waiting = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    while len(ended) < 2:
        more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        ended |= more
    assert sorted(message["Body"] for poll in ended for message in poll.result()) == ["one", "two"]
    assert await sqs.counts(url) == (0, 2, 0)
    assert (sqs.engine.receives - before, len(waiting)) == (2, 8)
    sqs.advance(20.1)
    assert [await poll for poll in waiting] == [[]] * 8


@spec("poll.at-once")
async def test_does_not_wait_for_what_is_there(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await sqs.send(url, "one")
    await sqs.send(url, "two")
    messages = await wire.receive(url, WaitTimeSeconds=20)
    assert [message["Body"] for message in messages] == ["one", "two"]


@spec("poll.what-is-there")
async def test_does_not_wait_for_more(sqs: Sqs) -> None:
    url = await sqs.queue()
    poll = await sqs.poll(url, n=10)
    await sqs.send(url, "one")
    assert [message["Body"] for message in await poll] == ["one"]


@spec("poll.ends", "poll.of-the-queue", "poll.explicit-over-queue")
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


@spec("poll.explicit-zero")
async def test_explicit_zero_is_a_short_poll(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue(ReceiveMessageWaitTimeSeconds="20")
    assert await wire.receive(url, WaitTimeSeconds=0) == []
    assert not sqs.engine.waiting.is_set()


@spec("poll.queue-deleted")
async def test_ends_with_its_queue(sqs: Sqs) -> None:
    url = await sqs.queue()
    poll = await sqs.poll(url)
    await sqs("DeleteQueue", QueueUrl=url)
    assert await poll == []


@pytest.mark.parametrize("recreate_wait_s", [0])
@pytest.mark.parametrize("name", ["q", "q.fifo"])
@spec("poll.namesake")
async def test_takes_nothing_of_a_namesake(sqs: Sqs, name: str) -> None:
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if name.endswith(".fifo") else {}
    url = await sqs.queue(name)
    polls = [await sqs.poll(url) for _ in range(3)]
    await sqs("DeleteQueue", QueueUrl=url)
    assert await sqs.queue(name) == url
    await sqs.send(url, **ids)
    assert len(await sqs.receive(url)) == 1
    assert [await poll for poll in polls] == [[]] * 3


@spec("poll.gone-client")
async def test_ends_when_the_caller_hangs_up(sqs: Sqs) -> None:
    url = await sqs.queue()
    gone = asyncio.Event()
    poll = await sqs.poll(url, hang_up=gone.wait)
    gone.set()
    assert await poll == []
    await sqs.send(url, "for somebody else")
    assert await sqs.bodies(url) == ["for somebody else"]


@spec("poll.gone-client-passes-on")
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
