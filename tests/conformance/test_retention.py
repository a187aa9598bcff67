"""A message older than its queue's retention period is not given out, and none vanishes sooner."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Engine
from tests.conformance.support import DONE, HIDE_MS, Desk, bodies, numbered


@pytest.fixture
def desk(engine: Engine, clock: Clock, fifo_queue: bool) -> Desk:
    return Desk(engine, clock, fifo=fifo_queue, retention_ms=60_000)


async def test_kept_to_the_last_millisecond(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    desk.later(59_999)
    assert bodies(await desk.take(hide_ms=0)) == [b"one"]
    desk.later(1)
    assert not await desk.take()


async def test_age_counts_from_birth_not_from_arrival(desk: Desk) -> None:
    """A standard dead-letter queue gets messages that are old already."""
    await desk.send(b"old", group="g", age_ms=59_999)
    await desk.send(b"too old", group="h", age_ms=60_000)
    await desk.send(b"new", group="i")
    assert sorted(bodies(await desk.take())) == [b"new", b"old"]


async def test_a_message_in_flight_does_not_come_back_past_its_retention(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    await desk.take_one(hide_ms=60_000)
    desk.later(60_000)
    assert not await desk.take()


async def test_a_message_in_flight_past_its_retention_may_be_deleted_in_peace(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    message = await desk.take_one(hide_ms=120_000)
    desk.later(60_001)
    await desk.delete(message)
    desk.later(120_000)
    assert not await desk.take()
    assert not await desk.peek_all()


async def test_a_longer_retention_applies_to_what_is_there(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    desk.set(retention_ms=120_000)
    desk.later(119_999)
    assert bodies(await desk.take(hide_ms=0)) == [b"one"]
    desk.later(1)
    assert not await desk.take()


async def test_a_shorter_retention_applies_to_what_is_there(desk: Desk) -> None:
    await desk.send(b"old", group="g")
    desk.later(30_000)
    await desk.send(b"new", group="g")
    desk.set(retention_ms=20_000)
    assert bodies(await desk.take()) == [b"new"]


@pytest.mark.parametrize("old", [1, 9, 10, 25, 300])
async def test_new_messages_are_reached_behind_any_number_of_old_ones(desk: Desk, old: int) -> None:
    await desk.send(*numbered(old), group="g")
    desk.later(60_000)
    await desk.send(b"new", group="g")
    assert bodies(await desk.take(1)) == [b"new"]


async def test_new_groups_are_reached_behind_old_ones(desk: Desk) -> None:
    for i in range(25):
        await desk.send(b"old", group=f"old {i}")
    desk.later(60_000)
    await desk.send(b"new", group="new")
    assert bodies(await desk.take(1)) == [b"new"]


@pytest.mark.needs(fifo=True)
async def test_when_the_first_of_a_group_expires_the_next_is_the_first(fifo: Desk) -> None:
    fifo.set(retention_ms=60_000)
    await fifo.send(b"first", group="g", delay_ms=0)
    fifo.later(30_000)
    await fifo.send(b"second", b"third", group="g")
    fifo.later(30_000)
    (message,) = await fifo.take(1)
    assert message.body == b"second"
    assert not await fifo.take()
    assert await fifo.delete(message) == [DONE]
    assert bodies(await fifo.take()) == [b"third"]


@pytest.mark.needs(fifo=True)
async def test_old_messages_in_the_midst_of_a_group_are_left_out(fifo: Desk) -> None:
    fifo.set(retention_ms=60_000)
    for body, age_ms in ((b"1", 0), (b"2", 50_000), (b"3", 0), (b"4", 50_000), (b"5", 0)):
        await fifo.send(body, group="g", age_ms=age_ms)
    fifo.later(10_000)
    assert bodies(await fifo.take()) == [b"1", b"3", b"5"]


async def test_what_has_expired_is_counted_no_more_once_it_was_met(desk: Desk) -> None:
    await desk.send(*numbered(5), group="g")
    await desk.take(2, HIDE_MS)
    desk.later(60_000)
    await desk.send(b"new", group="h")
    assert len(await desk.drain()) == 1
    assert await desk.counts() == (0, 1, 0)
    assert bodies(await desk.peek_all()) == [b"new"]
