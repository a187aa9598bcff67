"""A purge empties a queue, a drop ends it, at once and completely, and other queues are not affected."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import RejectedEntry
from tests.conformance.drivers import Driver
from tests.conformance.support import HIDE_MS, QueueFixture, bodies, numbered

pytestmark = pytest.mark.differs_by_engine


@pytest.mark.spec("purge.all-states")
async def test_a_purge_takes_messages_of_every_state(queue: QueueFixture) -> None:
    await queue.send(*numbered(5), group="g")
    await queue.take(2)
    await queue.send(b"delayed", group="h", delay_ms=1_000)
    await queue.purge()
    assert not await queue.peek_all()
    assert await queue.counts() == (0, 0, 0)
    await queue.send(b"new", group="g")
    queue.advance(HIDE_MS)
    assert await queue.counts() == (1, 0, 0)
    assert bodies(await queue.take()) == [b"new"]


@pytest.mark.every_engine
async def test_a_purged_queue_works_on(queue: QueueFixture) -> None:
    await queue.send(b"before", group="g")
    await queue.purge()
    await queue.send(*numbered(3), group="g")
    assert bodies(await queue.take()) == numbered(3)


@pytest.mark.spec("purge.fifo-unlocks")
async def test_a_purge_frees_the_groups(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    await fifo.take(1)
    await fifo.purge()
    await fifo.send(b"new", group="g")
    assert bodies(await fifo.take()) == [b"new"]


async def test_purging_an_empty_queue_twice(queue: QueueFixture) -> None:
    await queue.purge()
    await queue.purge()
    await queue.send(b"one", group="g")
    assert bodies(await queue.take()) == [b"one"]


@pytest.mark.every_engine
async def test_a_dropped_queue_accepts_and_returns_nothing(queue: QueueFixture) -> None:
    await queue.send(*numbered(3), group="g")
    await queue.drop()
    assert await queue.send_entries([queue.entry(b"late"), queue.entry(b"later")]) == [RejectedEntry(), RejectedEntry()]
    received = await queue.receive()
    assert (received.messages, received.dropped) == ((), True)
    assert not await queue.peek_all()
    assert await queue.counts() == (0, 0, 0)
    await queue.purge()
    await queue.drop()
    assert (await queue.receive()).dropped


async def test_a_new_queue_of_the_name_is_not_affected(queue: QueueFixture, clock: Clock, fifo_queue: bool) -> None:
    """A new queue of the same name has another id and none of the dropped queue's messages."""
    namesake = QueueFixture(queue.engine, clock, fifo=fifo_queue)
    await queue.send(b"old", group="g", dedup="same")
    old = await queue.take_one()
    await namesake.send(b"new", group="g", dedup="same")
    await queue.drop()
    while await queue.engine.maintain(1_000, queue.now_ms) == 1_000:
        pass
    await queue.delete(old)
    await namesake.delete(old)
    assert bodies(await namesake.take()) == [b"new"]


@pytest.mark.parametrize("end", ["purge", "drop"])
async def test_other_queues_are_not_affected(queue: QueueFixture, clock: Clock, fifo_queue: bool, end: str) -> None:
    others = [QueueFixture(queue.engine, clock, fifo=fifo_queue) for _ in range(3)]
    for one in (queue, *others):
        await one.send(*numbered(3), group="g")
    await (queue.purge() if end == "purge" else queue.drop())
    for other in others:
        assert bodies(await other.take()) == numbered(3)


@pytest.mark.parametrize("end", ["purge", "drop"])
async def test_purges_and_drops_survive_a_restart(queue: QueueFixture, driver: Driver, end: str) -> None:
    await queue.send(*numbered(3), group="g")
    await (queue.purge() if end == "purge" else queue.drop())
    queue = await driver.restart(queue)
    received = await queue.receive()
    assert (received.messages, received.dropped) == ((), end == "drop")
    assert not await queue.peek_all()


async def test_messages_sent_before_a_purge_are_gone_when_it_returns(queue: QueueFixture) -> None:
    """Concurrent sends are kept or purged; earlier ones are purged, later ones are kept."""
    await queue.send(*numbered(20, b"before"), group="g")
    sends = [asyncio.create_task(queue.send(body, group="g")) for body in numbered(20, b"beside")]
    await queue.purge()
    await queue.send(*numbered(20, b"after"), group="g")
    await asyncio.gather(*sends)
    left = bodies(await queue.peek_all())
    assert not [body for body in left if body.startswith(b"before")]
    assert sorted(body for body in left if body.startswith(b"after")) == numbered(20, b"after")
