"""Long polls: whom a message wakes, and what ends them. tests/conformance/test_waiters.py shows each cause."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from cns_common.aws.call import Call
from cns_common.aws.http_request import HttpRequest
from lab.harness.waiting import PATIENCE_S
from tests.integration.cqs.door import SQS_VERSION, Door, open_door
from tests.integration.cqs.sqs import Sqs
from tests.integration.cqs.sqs_wire import Wire

spec = pytest.mark.spec


class Caller:
    """A caller that waits for a response until it disconnects."""

    def __init__(self) -> None:
        self._callback: Callable[[], None] | None = None

    def when_gone(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def go(self) -> None:
        assert self._callback is not None
        self._callback()


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
async def test_a_poll_does_not_wait_for_existing_messages(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await sqs.send(url, "one")
    await sqs.send(url, "two")
    messages = await wire.receive(url, WaitTimeSeconds=20)
    assert [message["Body"] for message in messages] == ["one", "two"]


@spec("poll.what-is-there")
async def test_a_poll_does_not_wait_for_more_messages(sqs: Sqs) -> None:
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
async def test_a_poll_takes_nothing_of_a_new_queue_of_the_name(sqs: Sqs, name: str) -> None:
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
    caller = Caller()
    poll = await sqs.poll(url, when_gone=caller.when_gone)
    caller.go()
    assert await poll == []
    await sqs.send(url, "for somebody else")
    assert await sqs.bodies(url) == ["for somebody else"]


@spec("poll.gone-client-passes-on")
async def test_a_message_for_one_that_hung_up_wakes_another(sqs: Sqs) -> None:
    url = await sqs.queue()
    caller = Caller()
    first = await sqs.poll(url, when_gone=caller.when_gone)
    second = await sqs.poll(url)
    caller.go()
    await sqs.send(url)
    assert await first == []
    assert len(await second) == 1


@spec("poll.gone-client-passes-on")
@pytest.mark.parametrize("turns", range(8))
async def test_a_message_for_one_that_hangs_up_while_it_is_woken_wakes_another(sqs: Sqs, turns: int) -> None:
    """The caller may disconnect at any moment: the message is in the response that nobody reads, or goes to the other
    poll."""
    url = await sqs.queue()
    caller = Caller()
    first = await sqs.poll(url, when_gone=caller.when_gone)
    second = await sqs.poll(url)
    sending = asyncio.create_task(sqs.send(url))
    while not sending.done():
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    caller.go()
    if await first == []:
        assert len(await second) == 1
    second.cancel()
    await asyncio.wait([second])


async def test_cancelled_poll_passes_its_message_on(sqs: Sqs) -> None:
    url = await sqs.queue()
    first, second = await sqs.poll(url), await sqs.poll(url)
    first.cancel()
    await sqs.send(url)
    assert len(await second) == 1
    with pytest.raises(asyncio.CancelledError):
        await first


# -- on the wire ------------------------------------------------------------------------------------------------------


def _requests() -> list[HttpRequest | Call]:
    return [held for held in gc.get_objects() if isinstance(held, HttpRequest | Call)]


@pytest.mark.parametrize("protocol", ["json", "query"])
async def test_a_waiting_poll_holds_nothing_of_its_request(door: Door, protocol: str) -> None:
    url = await door.queue("q")
    others = _requests()
    door.sqs.engine.waiting.clear()
    if protocol == "json":
        polling = asyncio.create_task(door.json("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20))
    else:
        polling = asyncio.create_task(door.query("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20}))
    await door.sqs.engine.waiting.wait()
    assert not [held for held in _requests() if not any(held is other for other in others)]
    door.sqs.advance(20.1)
    assert (await polling).status == 200


async def test_a_poll_under_another_server_ends_with_its_caller(sqs: Sqs) -> None:
    """The ASGI app: after the body it is told that the caller has disconnected."""
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    said: asyncio.Queue[Any] = asyncio.Queue()
    sqs.engine.waiting.clear()
    poll = {"Action": "ReceiveMessage", "Version": SQS_VERSION, "QueueUrl": await sqs.queue(), "WaitTimeSeconds": 20}
    heard.put_nowait({"type": "http.request", "body": urlencode(poll).encode()})
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "scheme": "http", "headers": []}
    async with open_door(sqs, enforced=False) as door:
        answering = asyncio.create_task(door.front(scope, heard.get, said.put))
        await sqs.engine.waiting.wait()
        heard.put_nowait({"type": "http.disconnect"})
        async with asyncio.timeout(PATIENCE_S):
            await answering
    assert said.get_nowait()["status"] == 200


async def test_a_request_in_parts_behind_a_poll_is_answered_after_it(sqs: Sqs) -> None:
    url = await sqs.queue()
    bodies = [json.dumps({"QueueUrl": url, **more}).encode() for more in ({"WaitTimeSeconds": 20}, {})]
    head = "POST / HTTP/1.1\r\nx-amz-target: AmazonSQS.{}\r\ncontent-length: {}\r\n\r\n"
    heads = [
        head.format(action, len(body)).encode()
        for action, body in zip(("ReceiveMessage", "PurgeQueue"), bodies, strict=True)
    ]
    sqs.engine.waiting.clear()
    async with open_door(sqs, enforced=False) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(heads[0] + bodies[0] + heads[1] + bodies[1][:10])
        await sqs.engine.waiting.wait()
        sqs.advance(20.1)
        assert (await reader.readline()).split()[1] == b"200"
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(2) == b"{}"
        writer.write(bodies[1][10:])
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()
        await writer.wait_closed()
