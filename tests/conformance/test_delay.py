"""A delayed message is there but not given out, to the millisecond, and keeps nobody waiting that it need not."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from tests.conformance.drivers import Driver
from tests.conformance.support import Desk, bodies


@pytest.mark.parametrize("delay_ms", [1, 5_000, 900_000])
async def test_given_out_when_the_delay_is_over(desk: Desk, delay_ms: int) -> None:
    await desk.send(b"one", group="g", delay_ms=delay_ms)
    desk.later(delay_ms - 1)
    assert not await desk.take()
    assert await desk.counts() == (0, 0, 1)
    desk.later(1)
    assert await desk.counts() == (1, 0, 0)
    assert bodies(await desk.take()) == [b"one"]


async def test_the_longest_delay(desk: Desk) -> None:
    longest_ms = desk.engine.capabilities.max_delay_ms
    desk.set(retention_ms=10 * longest_ms)
    await desk.send(b"one", delay_ms=longest_ms)
    desk.later(longest_ms - 1)
    assert not await desk.take()
    desk.later(1)
    assert len(await desk.take()) == 1


async def test_later_messages_pass_a_delayed_one(standard: Desk) -> None:
    await standard.send(b"delayed", delay_ms=10_000)
    await standard.send(b"prompt")
    assert bodies(await standard.take()) == [b"prompt"]
    standard.later(10_000)
    await standard.send(b"later")
    assert sorted(bodies(await standard.take())) == [b"delayed", b"later"]


async def test_a_delay_is_part_of_the_age_of_a_message(standard: Desk) -> None:
    standard.set(retention_ms=60_000)
    await standard.send(b"one", delay_ms=50_000)
    standard.later(59_999)
    assert len(await standard.take(hide_ms=0)) == 1
    standard.later(1)
    assert not await standard.take()


async def test_a_delay_survives_a_restart(driver: Driver, clock: Clock, fifo_queue: bool) -> None:
    async with driver.open() as engine:
        desk = Desk(engine, clock, fifo=fifo_queue)
        await desk.send(b"one", delay_ms=10_000)
    async with driver.open() as engine:
        desk = desk.at(engine)
        assert await desk.counts() == (0, 0, 1)
        desk.later(9_999)
        assert not await desk.take()
        desk.later(1)
        assert len(await desk.take()) == 1
