"""A receive repeated under its attempt id returns the same messages until one of them changes (spec/sqs.md 7.3)."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import ATTEMPT_WINDOW_MS, Change
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, HIDE_MS, QueueFixture, bodies, numbered

pytestmark = [pytest.mark.needs(fifo=True), pytest.mark.differs_by_engine]


async def test_a_repeat_gives_the_same_deliveries(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(5), group="g")
    first = await fifo.receive(3, attempt_id="a")
    fifo.advance(1_000)
    assert await fifo.receive(3, attempt_id="a") == first
    assert await fifo.counts() == (2, 3, 0)
    assert await fifo.delete(*first.messages) == [DONE] * 3


@pytest.mark.spec("attempt.hides-anew")
async def test_a_repeat_hides_anew(fifo: QueueFixture) -> None:
    await fifo.send(b"one", group="g")
    await fifo.take(attempt_id="a", hide_ms=10_000)
    fifo.advance(9_000)
    (message,) = await fifo.take(attempt_id="a", hide_ms=10_000)
    fifo.advance(9_999)
    assert not await fifo.take()
    assert await fifo.hide(message, 1) == DONE
    fifo.advance(1)
    assert len(await fifo.take()) == 1


@pytest.mark.spec("attempt.other-id")
async def test_another_attempt_does_not_get_the_messages(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    await fifo.take(1, attempt_id="a")
    assert not await fifo.take(attempt_id="b")
    assert not await fifo.take()


async def test_attempt_ids_belong_to_one_queue(fifo: QueueFixture, clock: Clock) -> None:
    other = QueueFixture(fifo.engine, clock, fifo=True)
    await fifo.send(b"mine", group="g")
    await other.send(b"other", group="g")
    await fifo.take(attempt_id="a")
    assert bodies(await other.take(attempt_id="a")) == [b"other"]


async def test_after_an_attempt_that_got_nothing_a_repeat_is_new(fifo: QueueFixture) -> None:
    assert not await fifo.take(attempt_id="a")
    await fifo.send(b"one", group="g")
    assert bodies(await fifo.take(attempt_id="a")) == [b"one"]


@pytest.mark.spec("attempt.after-delete")
@pytest.mark.parametrize("n", [1, 2])
async def test_after_a_delete_it_is_a_new_receive(fifo: QueueFixture, n: int) -> None:
    await fifo.send(*numbered(3), group="g")
    messages = await fifo.take(n, attempt_id="a")
    await fifo.delete(messages[0])
    again = await fifo.take(attempt_id="a")
    assert bodies(again) == ([] if n == 2 else numbered(3)[1:])


@pytest.mark.spec("attempt.after-change")
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("to_ms", [0, 5_000, HIDE_MS])
async def test_after_a_change_of_visibility_it_is_a_new_receive(fifo: QueueFixture, n: int, to_ms: int) -> None:
    await fifo.send(*numbered(3), group="g")
    before = await fifo.take(n, attempt_id="a")
    for message in before:
        await fifo.hide(message, to_ms)
    again = await fifo.take(attempt_id="a")
    assert bodies(again) == (numbered(3) if to_ms == 0 else [])
    assert not {message.handle for message in again} & {message.handle for message in before}


@pytest.mark.needs(update_body=True)
async def test_after_a_change_of_body_it_is_a_new_receive(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    (message,) = await fifo.take(1, attempt_id="a")
    await fifo.engine.change(fifo.q, [Change(message.handle, None, b"new")], fifo.now_ms)
    assert not await fifo.take(attempt_id="a")


async def test_after_another_receive_a_repeat_is_new(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(2), group="g")
    await fifo.take(attempt_id="a", hide_ms=1_000)
    fifo.advance(1_000)
    other = await fifo.take()
    assert bodies(other) == numbered(2)
    assert not await fifo.take(attempt_id="a")
    assert await fifo.delete(*other) == [DONE, DONE]


async def test_a_repeat_after_the_timeout_gets_messages_not_received_by_others(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(2), group="g")
    first = await fifo.take(1, attempt_id="a", hide_ms=1_000)
    fifo.advance(5_000)
    again = await fifo.take(1, attempt_id="a", hide_ms=1_000)
    assert bodies(again) == bodies(first)
    assert await fifo.delete(*again) == [DONE]


@pytest.mark.spec("attempt.window")
@pytest.mark.parametrize(("ms", "same"), [(ATTEMPT_WINDOW_MS - 1, True), (ATTEMPT_WINDOW_MS, False)])
async def test_the_window_is_five_minutes(fifo: QueueFixture, ms: int, same: bool) -> None:
    await fifo.send(*numbered(2), group="g")
    first = await fifo.take(1, attempt_id="a", hide_ms=10 * ATTEMPT_WINDOW_MS)
    fifo.advance(ms)
    assert await fifo.take(1, attempt_id="a") == (first if same else ())


@pytest.mark.spec("attempt.without-timeout")
async def test_without_a_timeout_there_is_nothing_to_repeat(fifo: QueueFixture) -> None:
    await fifo.send(b"one", group="g")
    (first,) = await fifo.take(attempt_id="a", hide_ms=0)
    (again,) = await fifo.take(attempt_id="a", hide_ms=0)
    assert (again.deliveries, again.handle != first.handle) == (2, True)


async def test_a_purge_ends_it(fifo: QueueFixture) -> None:
    await fifo.send(b"before", group="g")
    await fifo.take(attempt_id="a")
    await fifo.purge()
    await fifo.send(b"after", group="g")
    assert bodies(await fifo.take(attempt_id="a")) == [b"after"]


async def test_it_survives_a_restart(fifo: QueueFixture, driver: Driver) -> None:
    await fifo.send(*numbered(4), group="g")
    first = await fifo.take(2, attempt_id="a")
    fifo = await driver.restart(fifo)
    assert await fifo.take(2, attempt_id="a") == first
