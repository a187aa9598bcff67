"""A purge empties a queue and a drop ends it, whole and at once, and neither reaches any other queue."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import RejectedEntry
from tests.conformance.drivers import Driver
from tests.conformance.support import HIDE_MS, Desk, bodies, numbered

pytestmark = pytest.mark.differs_by_engine


async def test_a_purge_takes_messages_of_every_state(desk: Desk) -> None:
    await desk.send(*numbered(5), group="g")
    await desk.take(2)
    await desk.send(b"delayed", group="h", delay_ms=1_000)
    await desk.purge()
    assert not await desk.peek_all()
    desk.later(HIDE_MS)
    assert not await desk.take()


async def test_a_purged_queue_works_on(desk: Desk) -> None:
    await desk.send(b"before", group="g")
    await desk.purge()
    await desk.send(*numbered(3), group="g")
    assert bodies(await desk.take()) == numbered(3)


async def test_a_purge_frees_the_groups(fifo: Desk) -> None:
    await fifo.send(*numbered(3), group="g")
    await fifo.take(1)
    await fifo.purge()
    await fifo.send(b"new", group="g")
    assert bodies(await fifo.take()) == [b"new"]


async def test_purging_an_empty_queue_twice(desk: Desk) -> None:
    await desk.purge()
    await desk.purge()
    await desk.send(b"one", group="g")
    assert bodies(await desk.take()) == [b"one"]


async def test_a_dropped_queue_is_no_more(desk: Desk) -> None:
    await desk.send(*numbered(3), group="g")
    await desk.drop()
    assert await desk.put([desk.entry(b"late"), desk.entry(b"later")]) == [RejectedEntry(), RejectedEntry()]
    received = await desk.receive()
    assert (received.messages, received.dropped) == ((), True)
    assert not await desk.peek_all()
    await desk.purge()
    await desk.drop()
    assert (await desk.receive()).dropped


async def test_a_namesake_is_not_reached(desk: Desk, clock: Clock, fifo_queue: bool) -> None:
    """A queue made anew under the same name has another id, and nothing of the dropped one's."""
    namesake = Desk(desk.engine, clock, fifo=fifo_queue)
    await desk.send(b"old", group="g", dedup="same")
    old = await desk.take_one()
    await namesake.send(b"new", group="g", dedup="same")
    await desk.drop()
    while await desk.engine.maintain(1_000, desk.now_ms) == 1_000:
        pass
    await desk.delete(old)
    await namesake.delete(old)
    assert bodies(await namesake.take()) == [b"new"]


@pytest.mark.parametrize("end", ["purge", "drop"])
async def test_other_queues_are_not_reached(desk: Desk, clock: Clock, fifo_queue: bool, end: str) -> None:
    others = [Desk(desk.engine, clock, fifo=fifo_queue) for _ in range(3)]
    for one in (desk, *others):
        await one.send(*numbered(3), group="g")
    if end == "purge":
        await desk.purge()
    else:
        await desk.drop()
    for other in others:
        assert bodies(await other.take()) == numbered(3)


@pytest.mark.parametrize("end", ["purge", "drop"])
async def test_it_stays_so_after_a_restart(driver: Driver, clock: Clock, fifo_queue: bool, end: str) -> None:
    async with driver.open() as engine:
        desk = Desk(engine, clock, fifo=fifo_queue)
        await desk.send(*numbered(3), group="g")
        if end == "purge":
            await desk.purge()
        else:
            await desk.drop()
    async with driver.open() as engine:
        desk = desk.at(engine)
        received = await desk.receive()
        assert (received.messages, received.dropped) == ((), end == "drop")
        assert not await desk.peek_all()


async def test_what_was_sent_before_a_purge_is_gone_when_it_returns(desk: Desk) -> None:
    """Sends beside it are kept or gone; those answered before are gone, those begun after are kept."""
    await desk.send(*numbered(20, b"before"), group="g")
    sends = [asyncio.create_task(desk.send(body, group="g")) for body in numbered(20, b"beside")]
    await desk.purge()
    await desk.send(*numbered(20, b"after"), group="g")
    await asyncio.gather(*sends)
    left = bodies(await desk.peek_all())
    assert not [body for body in left if body.startswith(b"before")]
    assert sorted(body for body in left if body.startswith(b"after")) == numbered(20, b"after")
