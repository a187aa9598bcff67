"""Long polls: each ends with a message, at its timeout, or when its consumer stops."""

from __future__ import annotations

import asyncio

import pytest

from cqs.engines.contract import LongPolls, ReceiveResult
from tests.conformance.support import HIDE_MS, POLL_S, QueueFixture, bodies, numbered

pytestmark = pytest.mark.differs_by_engine

SHORT_S = 0.2


def _receive(
    queue: QueueFixture, long_polls: LongPolls, want: int = 10, wait_s: float = POLL_S
) -> asyncio.Task[ReceiveResult]:
    return asyncio.create_task(long_polls.receive(queue.q, want, HIDE_MS, wait_s))


async def _waiting(queue: QueueFixture, long_polls: LongPolls, n: int = 1) -> list[asyncio.Task[ReceiveResult]]:
    """This many long polls, which found nothing yet."""
    receives = [_receive(queue, long_polls, want=1) for _ in range(n)]
    await asyncio.sleep(SHORT_S)  # the first receive may need a round trip to a server; after that the poll waits
    assert not any(receive.done() for receive in receives)
    return receives


async def test_a_poll_returns_and_leases_existing_messages_at_once(queue: QueueFixture) -> None:
    await queue.send(*numbered(3), group="g")
    long_polls = queue.engine.long_polls()
    received = await asyncio.wait_for(_receive(queue, long_polls), POLL_S / 2)
    assert bodies(received.messages) == numbered(3)
    assert not await queue.take()
    passed_ms = queue.clock.now_ms() - queue.now_ms  # the poll hides by the clock, which the fixture read before
    queue.advance(passed_ms + HIDE_MS)
    assert bodies(await queue.take()) == numbered(3)


async def test_a_message_ends_one_poll(queue: QueueFixture) -> None:
    long_polls = queue.engine.long_polls()
    receives = await _waiting(queue, long_polls, 3)
    await queue.send(b"one", group="g")
    done, _ = await asyncio.wait(receives, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
    assert [bodies(receive.result().messages) for receive in done] == [[b"one"]]
    long_polls.stop()
    assert sum(len(received.messages) for received in await asyncio.gather(*receives)) == 1


async def test_a_poll_ends_at_its_timeout(queue: QueueFixture) -> None:
    long_polls = queue.engine.long_polls()
    longer = _receive(queue, long_polls)
    assert not (await _receive(queue, long_polls, wait_s=SHORT_S)).messages
    assert not longer.done(), "each has a timeout of its own"
    long_polls.stop()
    await longer
    await queue.send(b"one", group="g")
    assert bodies(await queue.take()) == [b"one"], "a cancelled poll leases nothing"


async def test_a_stop_ends_only_the_polls_of_its_consumer(queue: QueueFixture) -> None:
    leaving, staying = queue.engine.long_polls(), queue.engine.long_polls()
    left, stay = await _waiting(queue, leaving, 2), await _waiting(queue, staying, 1)
    leaving.stop()
    assert [len(received.messages) for received in await asyncio.gather(*left)] == [0, 0]
    await queue.send(b"one", group="g")
    assert bodies((await asyncio.wait_for(stay[0], POLL_S)).messages) == [b"one"]
    assert not (await asyncio.wait_for(_receive(queue, leaving), POLL_S / 2)).messages, (
        "a stopped consumer does not wait"
    )
