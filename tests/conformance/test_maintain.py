"""Clearing up goes in bounded steps that end, and changes nothing that anybody can see."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from tests.conformance.support import Desk, bodies, numbered

STEPS_MAX = 1_000


async def maintained(desk: Desk, budget: int) -> int:
    """Clear up until nothing waits; returns in how many steps."""
    for step in range(1, STEPS_MAX):
        done = await desk.engine.maintain(budget, desk.now_ms)
        assert 0 <= done <= budget
        if done < budget:
            return step
    raise AssertionError("clearing up never ends")


@pytest.mark.parametrize("budget", [1, 7, 100, 5_000])
async def test_steps_are_bounded_and_end(desk: Desk, budget: int) -> None:
    await desk.send(*numbered(120), group="g")
    await desk.purge()
    await desk.send(*numbered(30), group="g")
    await desk.purge()
    await desk.send(*numbered(3), group="g")
    await maintained(desk, budget)
    assert bodies(await desk.take()) == numbered(3)


async def test_a_budget_of_nothing_does_nothing(desk: Desk) -> None:
    await desk.send(*numbered(10), group="g")
    await desk.purge()
    assert await desk.engine.maintain(0, desk.now_ms) == 0


async def test_expired_messages_are_cleared_though_nobody_receives(desk: Desk, clock: Clock, fifo_queue: bool) -> None:
    """Of every queue, in one round of steps; a group's next message takes the place of an expired one."""
    desks = [desk, *(Desk(desk.engine, clock, fifo=fifo_queue) for _ in range(4))]
    for one in desks:
        one.now_ms = desk.now_ms
        one.set(retention_ms=60_000)
        await one.send(*numbered(40), group="g")
    desk.later(60_000)
    for one in desks:
        one.now_ms = desk.now_ms
        await one.send(b"new", group="g")
    await maintained(desk, 50)
    for one in desks:
        assert bodies(await one.peek_all()) == [b"new"]
        assert sum(await one.counts()) == 1
        assert bodies(await one.take()) == [b"new"]


async def test_messages_within_their_retention_stay(desk: Desk) -> None:
    desk.set(retention_ms=60_000)
    await desk.send(*numbered(5), group="g")
    taken = await desk.take(2, hide_ms=59_000)
    desk.later(59_999)
    await maintained(desk, 100)
    assert len(await desk.peek_all()) == 5
    assert len(taken) == 2


async def test_a_message_in_flight_is_left_to_its_holder(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    message = await desk.take_one()
    await maintained(desk, 100)
    assert not await desk.take()
    assert await desk.delete(message) == [0]


@pytest.mark.needs(fifo=True)
async def test_a_deduplication_history_is_not_cleared_early(fifo: Desk) -> None:
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    fifo.later(299_999)
    await maintained(fifo, 100)
    (again,) = await fifo.send(b"one", group="g", dedup="key")
    assert again.duplicate
    fifo.later(1)
    await maintained(fifo, 100)
    (anew,) = await fifo.send(b"one", group="g", dedup="key")
    assert (anew.duplicate, anew.id != original.id) == (False, True)
