"""Every message is counted in exactly one of three states, whatever happens to it and whenever one asks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Outcome
from tests.conformance.drivers import Driver
from tests.conformance.support import HIDE_MS, Desk, numbered


async def test_a_new_queue_is_empty(desk: Desk) -> None:
    counts = await desk.engine.counts(desk.q, desk.now_ms)
    assert (counts.visible, counts.in_flight, counts.delayed, counts.oldest_born_at_ms) == (0, 0, 0, 0)


async def test_each_step_of_a_message(desk: Desk) -> None:
    await desk.send(b"one", group="g", delay_ms=10_000)
    assert await desk.counts() == (0, 0, 1)
    desk.later(10_000)
    assert await desk.counts() == (1, 0, 0)
    message = await desk.take_one(10_000)
    assert await desk.counts() == (0, 1, 0)
    await desk.hide(message, 20_000)
    desk.later(10_000)
    assert await desk.counts() == (0, 1, 0)
    desk.later(10_000)
    assert await desk.counts() == (1, 0, 0)
    message = await desk.take_one(10_000)
    await desk.hide(message, 0)
    assert await desk.counts() == (1, 0, 0)
    await desk.delete(await desk.take_one())
    assert await desk.counts() == (0, 0, 0)


@pytest.mark.parametrize("ms", [1, 49, 50, 99, 100, 101, 12_345])
async def test_times_are_exact_to_the_millisecond(desk: Desk, ms: int) -> None:
    await desk.send(b"taken", group="g")
    await desk.take_one(ms)
    await desk.send(b"delayed", group="h", delay_ms=ms)
    desk.later(ms - 1)
    assert await desk.counts() == (0, 1, 1)
    desk.later(1)
    assert await desk.counts() == (2, 0, 0)


async def test_deleting_in_the_moment_of_return(standard: Desk) -> None:
    await standard.send(*numbered(4))
    messages = await standard.take(4, 1_010)
    for message in messages:
        await standard.delete(message)
        standard.later(5)
        visible, in_flight, delayed = await standard.counts()
        assert visible + in_flight + delayed == 3 - messages.index(message)
        standard.later(1_000)
    assert await standard.counts() == (0, 0, 0)


async def test_messages_behind_a_group_that_is_taken_are_visible(fifo: Desk) -> None:
    """As AWS counts them: they were not delivered, and no delay hides them."""
    await fifo.send(*numbered(5), group="g")
    await fifo.take(2)
    assert await fifo.counts() == (3, 2, 0)


async def test_the_oldest(desk: Desk) -> None:
    born_at_ms = desk.now_ms
    for _ in range(3):
        await desk.send(b"x", group="g")
        desk.later(1_000)
    assert (await desk.engine.counts(desk.q, desk.now_ms)).oldest_born_at_ms == born_at_ms
    await desk.delete(await desk.take_one())
    assert (await desk.engine.counts(desk.q, desk.now_ms)).oldest_born_at_ms == born_at_ms + 1_000


async def test_after_a_purge(desk: Desk) -> None:
    await desk.send(*numbered(5), group="g")
    await desk.take(2)
    await desk.send(b"delayed", group="h", delay_ms=1_000)
    await desk.purge()
    assert await desk.counts() == (0, 0, 0)
    await desk.send(b"new", group="g")
    desk.later(HIDE_MS)
    assert await desk.counts() == (1, 0, 0)


async def test_after_a_drop(desk: Desk) -> None:
    await desk.send(*numbered(3), group="g")
    await desk.drop()
    assert await desk.counts() == (0, 0, 0)


@pytest.mark.needs(keeps_leases=True)
async def test_after_a_restart(driver: Driver, clock: Clock, fifo_queue: bool) -> None:
    async with driver.open() as engine:
        desk = Desk(engine, clock, fifo=fifo_queue)
        for i in range(6):
            await desk.send(b"x", group=f"{i}")
        await desk.take(2, 10_007)
        await desk.send(b"x", group="g", delay_ms=20_003)
        before = await desk.counts()
    async with driver.open() as engine:
        desk = desk.at(engine)
        assert await desk.counts() == before == (4, 2, 1)
        desk.later(10_006)
        assert await desk.counts() == (4, 2, 1)
        desk.later(1)
        assert await desk.counts() == (6, 0, 1)
        desk.later(9_996)
        assert await desk.counts() == (7, 0, 0)


@pytest.mark.parametrize("seed", range(3))
async def test_the_sum_is_what_is_there(desk: Desk, seed: int) -> None:
    """Receives, deletes, returns and time in any order: the three counts always add up to the messages there are."""
    dice = random.Random(seed)
    held: list[Any] = []
    there = 0
    for _ in range(60):
        match dice.randrange(5):
            case 0:
                n = dice.randrange(1, 5)
                await desk.send(*numbered(n), group=str(dice.randrange(3)), delay_ms=dice.choice([0, 130, 5_000]))
                there += n
            case 1:
                held += await desk.take(dice.randrange(1, 5), dice.choice([0, 77, 4_000]))
            case 2 if held:
                there -= (await desk.delete(held.pop(dice.randrange(len(held))))).count(Outcome.DONE)
            case 3 if held:
                await desk.hide(dice.choice(held), dice.choice([0, 55, 9_000]))
            case _:
                desk.later(dice.choice([1, 60, 3_000]))
        counted = await desk.counts()
        assert min(counted) >= 0
        assert sum(counted) == there == len(await desk.peek_all())
