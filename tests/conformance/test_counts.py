"""Each message is counted in exactly one of three states at any time."""

from __future__ import annotations

import pytest

from tests.conformance.drivers import Driver
from tests.conformance.support import QueueFixture, numbered


async def test_a_new_queue_is_empty(queue: QueueFixture) -> None:
    counts = await queue.engine.counts(queue.q, queue.now_ms, oldest=True)
    assert (counts.visible, counts.in_flight, counts.delayed, counts.oldest_born_at_ms) == (0, 0, 0, 0)


@pytest.mark.every_engine
async def test_each_step_of_a_message(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g", delay_ms=10_000)
    assert await queue.counts() == (0, 0, 1)
    queue.advance(10_000)
    assert await queue.counts() == (1, 0, 0)
    message = await queue.take_one(10_000)
    assert await queue.counts() == (0, 1, 0)
    await queue.hide(message, 20_000)
    queue.advance(10_000)
    assert await queue.counts() == (0, 1, 0)
    queue.advance(10_000)
    assert await queue.counts() == (1, 0, 0)
    message = await queue.take_one(10_000)
    await queue.hide(message, 0)
    assert await queue.counts() == (1, 0, 0)
    await queue.delete(await queue.take_one())
    assert await queue.counts() == (0, 0, 0)


@pytest.mark.parametrize("ms", [1, 49, 50, 99, 100, 101, 12_345])
async def test_times_are_exact_to_the_millisecond(queue: QueueFixture, ms: int) -> None:
    await queue.send(b"taken", group="g")
    await queue.take_one(ms)
    await queue.send(b"delayed", group="h", delay_ms=ms)
    queue.advance(ms - 1)
    assert await queue.counts() == (0, 1, 1)
    queue.advance(1)
    assert await queue.counts() == (2, 0, 0)


async def test_a_delete_at_the_end_of_the_timeout(standard: QueueFixture) -> None:
    await standard.send(*numbered(4))
    messages = await standard.take(4, 1_010)
    for message in messages:
        await standard.delete(message)
        standard.advance(5)
        visible, in_flight, delayed = await standard.counts()
        assert visible + in_flight + delayed == 3 - messages.index(message)
        standard.advance(1_000)
    assert await standard.counts() == (0, 0, 0)


async def test_messages_behind_a_locked_group_count_as_visible(fifo: QueueFixture) -> None:
    """AWS counts them as visible: they were not delivered, and no delay hides them."""
    await fifo.send(*numbered(5), group="g")
    await fifo.take(2)
    assert await fifo.counts() == (3, 2, 0)


async def test_the_oldest(queue: QueueFixture) -> None:
    born_at_ms = queue.now_ms
    for _ in range(3):
        await queue.send(b"x", group="g")
        queue.advance(1_000)
    assert (await queue.engine.counts(queue.q, queue.now_ms, oldest=True)).oldest_born_at_ms == born_at_ms
    await queue.delete(await queue.take_one())
    assert (await queue.engine.counts(queue.q, queue.now_ms, oldest=True)).oldest_born_at_ms == born_at_ms + 1_000


@pytest.mark.needs(keeps_leases=True)
async def test_after_a_restart(queue: QueueFixture, driver: Driver) -> None:
    for i in range(6):
        await queue.send(b"x", group=f"{i}")
    await queue.take(2, 10_007)
    await queue.send(b"x", group="g", delay_ms=20_003)
    before = await queue.counts()
    queue = await driver.restart(queue)
    assert await queue.counts() == before == (4, 2, 1)
    queue.advance(10_006)
    assert await queue.counts() == (4, 2, 1)
    queue.advance(1)
    assert await queue.counts() == (6, 0, 1)
    queue.advance(9_996)
    assert await queue.counts() == (7, 0, 0)
