"""A delayed message becomes visible at the right millisecond, and does not delay others."""

from __future__ import annotations

import pytest

from tests.conformance.drivers import Driver
from tests.conformance.support import QueueFixture, bodies


@pytest.mark.parametrize("delay_ms", [1, 5_000, 900_000])
async def test_a_delayed_message_is_received_after_its_delay(queue: QueueFixture, delay_ms: int) -> None:
    await queue.send(b"one", group="g", delay_ms=delay_ms)
    queue.advance(delay_ms - 1)
    assert not await queue.take()
    assert await queue.counts() == (0, 0, 1)
    queue.advance(1)
    assert await queue.counts() == (1, 0, 0)
    assert bodies(await queue.take()) == [b"one"]


async def test_the_longest_delay(queue: QueueFixture) -> None:
    longest_ms = queue.engine.capabilities.max_delay_ms
    queue.set(retention_ms=10 * longest_ms)
    await queue.send(b"one", delay_ms=longest_ms)
    queue.advance(longest_ms - 1)
    assert not await queue.take()
    queue.advance(1)
    assert len(await queue.take()) == 1


async def test_later_messages_pass_a_delayed_one(standard: QueueFixture) -> None:
    await standard.send(b"delayed", delay_ms=10_000)
    await standard.send(b"prompt")
    assert bodies(await standard.take()) == [b"prompt"]
    standard.advance(10_000)
    await standard.send(b"later")
    assert sorted(bodies(await standard.take())) == [b"delayed", b"later"]


@pytest.mark.spec("receive.retention-from-sent")
async def test_a_delay_is_part_of_the_age_of_a_message(standard: QueueFixture) -> None:
    standard.set(retention_ms=60_000)
    await standard.send(b"one", delay_ms=50_000)
    standard.advance(59_999)
    assert len(await standard.take(hide_ms=0)) == 1
    standard.advance(1)
    assert not await standard.take()


async def test_a_delay_survives_a_restart(queue: QueueFixture, driver: Driver) -> None:
    await queue.send(b"one", delay_ms=10_000)
    queue = await driver.restart(queue)
    assert await queue.counts() == (0, 0, 1)
    queue.advance(9_999)
    assert not await queue.take()
    queue.advance(1)
    assert len(await queue.take()) == 1
