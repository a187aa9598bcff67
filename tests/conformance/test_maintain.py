"""Maintenance runs in bounded steps, ends, and changes nothing that a caller can see."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from tests.conformance.support import QueueFixture, bodies, numbered

STEPS_MAX = 1_000


async def maintained(queue: QueueFixture, budget: int) -> int:
    """Maintain until no work is left. Returns the number of steps."""
    for step in range(1, STEPS_MAX):
        done = await queue.engine.maintain(budget, queue.now_ms)
        assert 0 <= done <= budget
        if done < budget:
            return step
    raise AssertionError("clearing up never ends")


@pytest.mark.parametrize("budget", [1, 7, 100, 5_000])
async def test_steps_are_bounded_and_end(queue: QueueFixture, budget: int) -> None:
    await queue.send(*numbered(120), group="g")
    await queue.purge()
    await queue.send(*numbered(30), group="g")
    await queue.purge()
    await queue.send(*numbered(3), group="g")
    await maintained(queue, budget)
    assert bodies(await queue.take()) == numbered(3)


async def test_a_budget_of_nothing_does_nothing(queue: QueueFixture) -> None:
    await queue.send(*numbered(10), group="g")
    await queue.purge()
    assert await queue.engine.maintain(0, queue.now_ms) == 0


async def test_expired_messages_are_removed_without_receives(
    queue: QueueFixture, clock: Clock, fifo_queue: bool
) -> None:
    """Messages of all queues expire in one round of steps; the next message of a group becomes its head."""
    queues = [queue, *(QueueFixture(queue.engine, clock, fifo=fifo_queue) for _ in range(4))]
    for one in queues:
        one.now_ms = queue.now_ms
        one.set(retention_ms=60_000)
        await one.send(*numbered(40), group="g")
    queue.advance(60_000)
    for one in queues:
        one.now_ms = queue.now_ms
        await one.send(b"new", group="g")
    await maintained(queue, 50)
    for one in queues:
        assert bodies(await one.peek_all()) == [b"new"]
        assert sum(await one.counts()) == 1
        assert bodies(await one.take()) == [b"new"]


async def test_messages_within_their_retention_stay(queue: QueueFixture) -> None:
    queue.set(retention_ms=60_000)
    await queue.send(*numbered(5), group="g")
    taken = await queue.take(2, hide_ms=59_000)
    queue.advance(59_999)
    await maintained(queue, 100)
    assert len(await queue.peek_all()) == 5
    assert len(taken) == 2


async def test_a_message_in_flight_is_left_to_its_holder(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    await maintained(queue, 100)
    assert not await queue.take()
    assert await queue.delete(message) == [0]


@pytest.mark.needs(fifo=True)
async def test_a_deduplication_history_is_not_cleared_early(fifo: QueueFixture) -> None:
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    fifo.advance(299_999)
    await maintained(fifo, 100)
    (again,) = await fifo.send(b"one", group="g", dedup="key")
    assert again.duplicate
    fifo.advance(1)
    await maintained(fifo, 100)
    (anew,) = await fifo.send(b"one", group="g", dedup="key")
    assert (anew.duplicate, anew.id != original.id) == (False, True)
