"""A handle names one delivery of one message: what it may still do once that delivery is over."""

from __future__ import annotations

import pytest

from cqs.engines.contract import Change
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, EXPIRED, GONE, HIDE_MS, MALFORMED, STALE, Clock, Desk, bodies, numbered


async def test_a_deleted_message_is_gone(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    message = await desk.take_one()
    assert await desk.delete(message) == [DONE]
    assert await desk.delete(message) == [GONE]
    assert await desk.hide(message, 1_000) == GONE
    desk.later(HIDE_MS)
    assert not await desk.take()


async def test_a_handle_given_twice_in_one_call_deletes_once(desk: Desk) -> None:
    await desk.send(b"one", b"two", group="g")
    one, two = await desk.take()
    assert await desk.delete(one, two, one) == [DONE, DONE, GONE]
    assert not await desk.peek_all()


async def test_a_stale_handle_never_touches_a_newer_delivery(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    old = await desk.take_one(1_000)
    desk.later(1_000)
    new = await desk.take_one()
    assert await desk.delete(old) == [STALE]
    assert await desk.hide(old, 0) == STALE
    assert await desk.engine.change(desk.q, [Change(old.handle, None, b"other")], desk.now_ms) == [STALE]
    assert not await desk.take()
    assert await desk.delete(new) == [DONE]


async def test_stale_beside_current_in_one_call(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    old = await desk.take_one(1_000)
    desk.later(1_000)
    new = await desk.take_one()
    outcomes = await desk.delete(old, new)
    assert outcomes[1] is DONE
    assert outcomes[0] in (STALE, GONE)


async def test_a_delivery_without_a_timeout_makes_older_handles_stale(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    old = await desk.take_one(0)
    new = await desk.take_one(10_000)
    assert await desk.delete(old) == [STALE]
    assert await desk.delete(new) == [DONE]


async def test_an_old_handle_deletes_while_no_newer_delivery_was_made(standard: Desk) -> None:
    await standard.send(b"one")
    message = await standard.take_one(1_000)
    standard.later(3_600_000)
    assert await standard.delete(message) == [DONE]
    assert not await standard.take()


@pytest.mark.needs(order="group")
async def test_a_fifo_handle_ends_with_its_visibility_timeout(fifo: Desk) -> None:
    await fifo.send(b"one", group="g")
    message = await fifo.take_one(1_000)
    fifo.later(999)
    assert await fifo.hide(message, 1_000) == DONE
    fifo.later(1_000)
    assert await fifo.delete(message) == [EXPIRED]
    assert await fifo.hide(message, 1_000) == EXPIRED
    assert bodies(await fifo.take()) == [b"one"]


@pytest.mark.parametrize("handle", [b"", b"x", b"\x00" * 15, b"\xff" * 16, b"x" * 1_024], ids=len)
async def test_what_is_no_handle_does_nothing(desk: Desk, handle: bytes) -> None:
    await desk.send(b"one", group="g")
    assert await desk.engine.delete(desk.q, [handle], desk.now_ms) == [MALFORMED]
    assert await desk.engine.change(desk.q, [Change(handle, desk.now_ms)], desk.now_ms) == [MALFORMED]
    assert bodies(await desk.take()) == [b"one"]


async def test_a_bad_handle_does_not_fail_its_neighbours(desk: Desk) -> None:
    await desk.send(b"one", b"two", group="g")
    one, two = await desk.take()
    handles = [one.handle, b"junk", two.handle]
    assert await desk.engine.delete(desk.q, handles, desk.now_ms) == [DONE, MALFORMED, DONE]


async def test_another_queues_handle_does_nothing(desk: Desk, clock: Clock, fifo_queue: bool) -> None:
    other = Desk(desk.engine, clock, fifo=fifo_queue)
    await desk.send(b"mine", group="g")
    await other.send(b"other", group="g")
    message = await desk.take_one()
    assert await other.delete(message) == [GONE]
    assert await other.hide(message, 0) == GONE
    assert await desk.counts() == (0, 1, 0)
    assert await other.counts() == (1, 0, 0)
    assert await desk.delete(message) == [DONE]


async def test_handles_of_before_a_purge_do_nothing(desk: Desk) -> None:
    await desk.send(b"before", group="g")
    before = await desk.take_one()
    await desk.purge()
    await desk.send(b"after", group="g")
    assert await desk.delete(before) == [GONE]
    assert await desk.hide(before, 0) == GONE
    assert bodies(await desk.take()) == [b"after"]


async def test_handles_of_a_dropped_queue_do_nothing(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    message = await desk.take_one()
    await desk.drop()
    assert await desk.delete(message) == [GONE]
    assert await desk.hide(message, 0) == GONE


@pytest.mark.needs(keeps_leases=True)
async def test_handles_are_good_across_a_restart(driver: Driver, clock: Clock, fifo_queue: bool) -> None:
    async with driver.open() as engine:
        desk = Desk(engine, clock, fifo=fifo_queue)
        await desk.send(*numbered(3), group="g")
        stale = (await desk.take(3, 1_000))[2]
        desk.later(1_000)
        one, two, _ = await desk.take(3)
    async with driver.open() as engine:
        desk = desk.at(engine)
        assert await desk.delete(stale, one) == [STALE, DONE]
        assert await desk.hide(two, 0) == DONE
        again = await desk.take_one()
        assert again.body == two.body
        assert await desk.delete(two) == [STALE]
        assert await desk.delete(again) == [DONE]


async def test_no_handle_is_given_out_twice(driver: Driver, clock: Clock) -> None:
    seen: set[bytes] = set()
    desk: Desk | None = None
    for _ in range(3):
        async with driver.open() as engine:
            desk = desk.at(engine) if desk else Desk(engine, clock)
            await desk.send(b"one")
            for _ in range(5):
                handles = {message.handle for message in await desk.take(hide_ms=0)}
                assert not handles & seen
                seen |= handles
