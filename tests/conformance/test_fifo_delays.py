"""A FIFO queue's new delay counts for the messages that wait in it, too (spec/sqs.md 3)."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from tests.conformance.drivers import Driver
from tests.conformance.support import Desk, bodies

pytestmark = [pytest.mark.needs(fifo=True), pytest.mark.spec("fifo.delay-is-retroactive")]

ONE_MINUTE_MS = 60_000


async def _redelay(desk: Desk, delay_ms: int) -> None:
    await desk.engine.redelay(desk.q, delay_ms, desk.now_ms)


async def test_a_shorter_delay_ends_the_longer_one(fifo: Desk) -> None:
    await fifo.send(b"1", b"2", group="a", delay_ms=ONE_MINUTE_MS)
    await fifo.send(b"3", group="b", delay_ms=ONE_MINUTE_MS)
    fifo.later(1_000)
    await _redelay(fifo, 10_000)
    assert await fifo.counts() == (0, 0, 3)
    fifo.later(8_999)
    assert not await fifo.take()
    fifo.later(1)
    assert await fifo.counts() == (3, 0, 0)
    assert sorted(bodies(await fifo.take())) == [b"1", b"2", b"3"]


async def test_a_longer_delay_hides_what_was_visible(fifo: Desk) -> None:
    await fifo.send(b"1", b"2", group="a")
    fifo.later(1_000)
    await _redelay(fifo, ONE_MINUTE_MS)
    assert await fifo.counts() == (0, 0, 2)
    assert not await fifo.take()
    fifo.later(ONE_MINUTE_MS - 1_000)
    assert bodies(await fifo.take()) == [b"1", b"2"]


async def test_no_delay_is_a_delay_too(fifo: Desk) -> None:
    await fifo.send(b"1", group="a", delay_ms=900_000)
    await _redelay(fifo, 0)
    assert bodies(await fifo.take()) == [b"1"]


async def test_what_was_delivered_is_delayed_no_more(fifo: Desk) -> None:
    await fifo.send(b"1", b"2", group="a")
    first = await fifo.take_one()
    await fifo.hide(first, 0)
    await _redelay(fifo, ONE_MINUTE_MS)
    assert bodies(await fifo.take()) == [b"1"]
    assert await fifo.counts() == (0, 1, 1)


async def test_a_lease_lasts_as_long_as_it_did(fifo: Desk) -> None:
    await fifo.send(b"1", group="a")
    await fifo.take_one(5_000)
    await _redelay(fifo, 0)
    assert await fifo.counts() == (0, 1, 0)
    fifo.later(5_000)
    assert bodies(await fifo.take()) == [b"1"]


async def test_doing_it_twice_changes_nothing(fifo: Desk) -> None:
    await fifo.send(b"1", group="a")
    for _ in range(2):
        await _redelay(fifo, 1_000)
        assert await fifo.counts() == (0, 0, 1)
    fifo.later(1_000)
    assert await fifo.counts() == (1, 0, 0)


async def test_more_messages_than_a_step_has(fifo: Desk) -> None:
    await fifo.put([fifo.entry(b"x", group=f"{n % 7}", delay_ms=ONE_MINUTE_MS) for n in range(2_500)])
    await _redelay(fifo, 0)
    assert await fifo.counts() == (2_500, 0, 0)


async def test_who_waits_is_woken(fifo: Desk) -> None:
    await fifo.send(b"1", group="a", delay_ms=ONE_MINUTE_MS)
    wakeups = await fifo.wait()
    await _redelay(fifo, 0)
    assert await wakeups.wait(1)
    wakeups.close()


async def test_other_queues_keep_their_delay(fifo: Desk) -> None:
    other = Desk(fifo.engine, fifo.clock, fifo=True)
    await other.send(b"1", group="a", delay_ms=ONE_MINUTE_MS)
    await _redelay(fifo, 0)
    assert await other.counts() == (0, 0, 1)


async def test_it_is_durable(driver: Driver, clock: Clock) -> None:
    async with driver.open() as engine:
        desk = Desk(engine, clock, fifo=True)
        await desk.send(b"1", group="a", delay_ms=ONE_MINUTE_MS)
        await _redelay(desk, 0)
    async with driver.open() as engine:
        assert bodies(await desk.at(engine).take()) == [b"1"]
