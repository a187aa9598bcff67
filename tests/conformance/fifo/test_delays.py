"""A FIFO queue's new delay applies to the messages in it, too (spec/sqs.md 3)."""

from __future__ import annotations

import pytest

from lab.harness.waiting import PATIENCE_S
from tests.conformance.drivers import Driver
from tests.conformance.support import QueueFixture, bodies

pytestmark = [pytest.mark.needs(fifo=True), pytest.mark.spec("fifo.delay-is-retroactive")]

ONE_MINUTE_MS = 60_000


async def _redelay(queue: QueueFixture, delay_ms: int) -> None:
    await queue.engine.redelay(queue.q, delay_ms, queue.now_ms)


async def test_a_shorter_delay_ends_the_longer_one(fifo: QueueFixture) -> None:
    await fifo.send(b"1", b"2", group="a", delay_ms=ONE_MINUTE_MS)
    await fifo.send(b"3", group="b", delay_ms=ONE_MINUTE_MS)
    fifo.advance(1_000)
    await _redelay(fifo, 10_000)
    assert await fifo.counts() == (0, 0, 3)
    fifo.advance(8_999)
    assert not await fifo.take()
    fifo.advance(1)
    assert await fifo.counts() == (3, 0, 0)
    assert sorted(bodies(await fifo.take())) == [b"1", b"2", b"3"]


async def test_a_longer_delay_hides_visible_messages(fifo: QueueFixture) -> None:
    await fifo.send(b"1", b"2", group="a")
    fifo.advance(1_000)
    await _redelay(fifo, ONE_MINUTE_MS)
    assert await fifo.counts() == (0, 0, 2)
    assert not await fifo.take()
    fifo.advance(ONE_MINUTE_MS - 1_000)
    assert bodies(await fifo.take()) == [b"1", b"2"]


async def test_a_delivered_message_is_not_delayed_again(fifo: QueueFixture) -> None:
    await fifo.send(b"1", b"2", group="a")
    first = await fifo.take_one()
    await fifo.hide(first, 0)
    await _redelay(fifo, ONE_MINUTE_MS)
    assert bodies(await fifo.take()) == [b"1"]
    assert await fifo.counts() == (0, 1, 1)


async def test_a_lease_lasts_as_long_as_it_did(fifo: QueueFixture) -> None:
    await fifo.send(b"1", group="a")
    await fifo.take_one(5_000)
    await _redelay(fifo, 0)
    assert await fifo.counts() == (0, 1, 0)
    fifo.advance(5_000)
    assert bodies(await fifo.take()) == [b"1"]


async def test_setting_the_same_delay_twice_changes_nothing(fifo: QueueFixture) -> None:
    await fifo.send(b"1", group="a")
    for _ in range(2):
        await _redelay(fifo, 1_000)
        assert await fifo.counts() == (0, 0, 1)
    fifo.advance(1_000)
    assert await fifo.counts() == (1, 0, 0)


async def test_a_new_delay_of_many_messages(fifo: QueueFixture) -> None:
    await fifo.send_entries([fifo.entry(b"x", group=f"{n % 7}", delay_ms=ONE_MINUTE_MS) for n in range(2_500)])
    await _redelay(fifo, 0)
    assert await fifo.counts() == (2_500, 0, 0)


async def test_a_new_delay_wakes_waiters(fifo: QueueFixture) -> None:
    await fifo.send(b"1", group="a", delay_ms=ONE_MINUTE_MS)
    waiter = await fifo.wait()
    await _redelay(fifo, 0)
    assert await waiter.wait(PATIENCE_S)


async def test_other_queues_keep_their_delay(fifo: QueueFixture) -> None:
    other = QueueFixture(fifo.engine, fifo.clock, fifo=True)
    await other.send(b"1", group="a", delay_ms=ONE_MINUTE_MS)
    await _redelay(fifo, 0)
    assert await other.counts() == (0, 0, 1)


async def test_it_is_durable(fifo: QueueFixture, driver: Driver) -> None:
    await fifo.send(b"1", group="a", delay_ms=ONE_MINUTE_MS)
    await _redelay(fifo, 0)
    assert bodies(await (await driver.restart(fifo)).take()) == [b"1"]
