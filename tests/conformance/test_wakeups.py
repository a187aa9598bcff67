"""Whoever waits for messages is told when there are some: for every cause, and no more waiters than needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Change, Settlement, Waiter
from tests.conformance.support import DONE, POLL_S, Desk, bodies, numbered

pytestmark = pytest.mark.differs_by_engine


async def _woken(desk: Desk, waiting: Sequence[Waiter]) -> list[Waiter]:
    """Who of them has been woken by now."""
    await desk.counts()  # what was on its way has arrived before this is answered
    return [wakeups for wakeups in waiting if await wakeups.wait(0)]


def _close(*waiting: Waiter) -> None:
    for wakeups in waiting:
        wakeups.close()


async def test_silent_while_nothing_happens(desk: Desk) -> None:
    wakeups = await desk.wait()
    assert not await _woken(desk, [wakeups])
    wakeups.close()


async def test_by_a_send(desk: Desk) -> None:
    wakeups = await desk.wait()
    await desk.send(b"one", group="g")
    assert await wakeups.wait(POLL_S)
    assert bodies(await desk.take()) == [b"one"]
    wakeups.close()


async def test_by_a_settlement(desk: Desk, clock: Clock) -> None:
    other = Desk(desk.engine, clock)
    wakeups = await desk.wait()
    await other.engine.settle(Settlement(sends=((desk.q, desk.entry(b"one", group="g")),)), desk.now_ms)
    assert await wakeups.wait(POLL_S)
    wakeups.close()


async def test_by_the_end_of_a_delay(desk: Desk) -> None:
    wakeups = await desk.wait()
    await desk.send(b"one", group="g", delay_ms=60_000)
    while await _woken(desk, [wakeups]):  # an engine may wake for the send itself, and then it must be looked
        assert not await desk.take()
    desk.later(60_000)
    assert await wakeups.wait(POLL_S)
    assert bodies(await desk.take()) == [b"one"]
    wakeups.close()


async def test_by_the_end_of_a_delay_that_began_before(desk: Desk) -> None:
    await desk.send(b"one", group="g", delay_ms=60_000)
    wakeups = await desk.wait()
    desk.later(60_000)
    assert await wakeups.wait(POLL_S)
    wakeups.close()


async def test_by_the_end_of_a_visibility_timeout(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    await desk.take_one(600_000)
    wakeups = await desk.wait()
    desk.later(590_000)
    assert not await _woken(desk, [wakeups])
    desk.later(10_000)
    assert await wakeups.wait(POLL_S)
    assert bodies(await desk.take()) == [b"one"]
    wakeups.close()


async def test_by_the_soonest_of_many(standard: Desk) -> None:
    await standard.send(*numbered(5))
    for i in range(5):
        await standard.take_one(60_000 * (5 - i))
    wakeups = await standard.wait()
    for i in range(5):
        standard.later(60_000)
        assert await wakeups.wait(POLL_S)
        assert bodies(await standard.take(hide_ms=3_600_000)) == [b"%06d" % (4 - i)]
    wakeups.close()


@pytest.mark.parametrize("to_ms", [0, 5_000])
async def test_by_a_change_of_visibility(desk: Desk, to_ms: int) -> None:
    await desk.send(b"one", group="g")
    message = await desk.take_one(600_000)
    wakeups = await desk.wait()
    await desk.hide(message, to_ms)
    if to_ms:
        while await _woken(desk, [wakeups]):
            assert not await desk.take()
        desk.later(to_ms)
    assert await wakeups.wait(POLL_S)
    assert bodies(await desk.take()) == [b"one"]
    wakeups.close()


@pytest.mark.needs(fifo=True)
@pytest.mark.parametrize("how", ["delete", "settle", "expiry"])
async def test_by_the_unlocking_of_a_group(fifo: Desk, how: str) -> None:
    await fifo.send(b"1", b"2", group="g")
    message = await fifo.take_one(60_000)
    wakeups = await fifo.wait()
    if how == "delete":
        assert await fifo.delete(message) == [DONE]
    elif how == "settle":
        await fifo.engine.settle(Settlement(deletes=((fifo.q, message.handle),)), fifo.now_ms)
    else:
        fifo.later(60_000)
    assert await wakeups.wait(POLL_S)
    assert bodies(await fifo.take()) == ([b"1", b"2"] if how == "expiry" else [b"2"])
    wakeups.close()


@pytest.mark.needs(update_body=True)
async def test_not_needlessly_by_a_change_of_body(desk: Desk) -> None:
    await desk.send(b"one", group="g")
    message = await desk.take_one(600_000)
    wakeups = await desk.wait()
    await desk.engine.change(desk.q, [Change(message.handle, None, b"two")], desk.now_ms)
    assert not await _woken(desk, [wakeups])
    wakeups.close()


async def test_by_a_drop_everybody(desk: Desk) -> None:
    waiting = [await desk.wait() for _ in range(20)]
    await desk.drop()
    assert await asyncio.gather(*[wakeups.wait(POLL_S) for wakeups in waiting]) == [True] * 20
    assert (await desk.receive()).dropped
    _close(*waiting)


async def test_not_by_another_queue(desk: Desk, clock: Clock, fifo_queue: bool) -> None:
    other = Desk(desk.engine, clock, fifo=fifo_queue)
    wakeups = await desk.wait()
    await other.send(b"one", group="g")
    await other.drop()
    assert not await _woken(desk, [wakeups])
    wakeups.close()


@pytest.mark.parametrize("n", [1, 3, 10])
async def test_as_many_are_woken_as_there_are_messages(standard: Desk, n: int) -> None:
    waiting = [await standard.wait() for _ in range(10)]
    await standard.send(*numbered(n))
    assert len(await _woken(standard, waiting)) == n
    _close(*waiting)


async def test_those_who_wait_longest_are_woken_first(standard: Desk) -> None:
    waiting = [await standard.wait() for _ in range(5)]
    for i in range(5):
        await standard.send(b"one")
        assert await _woken(standard, waiting) == [waiting[i]]
        await standard.take()
    _close(*waiting)


async def test_one_who_took_a_full_batch_is_followed_by_the_next(standard: Desk) -> None:
    """Ten messages return at once, and each receive takes but one of them."""
    await standard.send(*numbered(10))
    await standard.take(10, hide_ms=60_000)
    waiting = [await standard.wait() for _ in range(10)]
    standard.later(60_000)
    taken: list[bytes] = []
    for wakeups in waiting:
        assert await wakeups.wait(POLL_S)
        taken += bodies(await standard.take(1))
    assert sorted(taken) == numbered(10)
    _close(*waiting)


async def test_a_woken_one_that_closes_passes_it_on(standard: Desk) -> None:
    waiting = [await standard.wait() for _ in range(10)]
    await standard.send(b"one")
    await standard.counts()
    for wakeups in waiting[:-1]:
        wakeups.close()
    assert await waiting[-1].wait(POLL_S)
    assert bodies(await standard.take()) == [b"one"]
    waiting[-1].close()


async def test_a_woken_one_may_pass_it_on_itself(standard: Desk) -> None:
    first, second = [await standard.wait() for _ in range(2)]
    await standard.send(b"one")
    assert await first.wait(POLL_S)
    first.pass_on()
    assert await second.wait(POLL_S)
    _close(first, second)


async def test_closed_in_the_moment_it_is_woken(standard: Desk) -> None:
    """A poll whose caller hangs up while the wake-up is on its way: another gets it."""
    for _ in range(20):
        leaving, staying = await standard.wait(), await standard.wait()
        polling = asyncio.create_task(leaving.wait(POLL_S))
        await asyncio.sleep(0)
        sending = asyncio.create_task(standard.send(b"one"))
        while not sending.done():
            await asyncio.sleep(0)
        polling.cancel()
        (ended,) = await asyncio.gather(polling, return_exceptions=True)
        leaving.close()
        if ended is not True:
            assert await staying.wait(POLL_S)
        await standard.delete(await standard.take_one())
        staying.close()


async def test_closing_ends_a_wait(desk: Desk) -> None:
    wakeups = await desk.wait()
    waiting = asyncio.create_task(wakeups.wait())
    await asyncio.sleep(0)
    wakeups.close()
    assert not await waiting
    assert not await wakeups.wait()


@pytest.mark.parametrize("turns", range(6))
async def test_by_what_is_sent_while_one_looks(desk: Desk, turns: int) -> None:
    """Into a queue known to be empty: the look finds it, or the wait that follows ends."""
    assert not await desk.take()
    sending = asyncio.create_task(desk.send(b"one", group="g"))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert bodies((await desk.poll()).messages) == [b"one"]
    await sending


async def test_closing_is_idempotent(standard: Desk) -> None:
    closed, other = await standard.wait(), await standard.wait()
    closed.close()
    closed.close()
    await standard.send(b"one")
    assert await _woken(standard, [other]) == [other]
    other.close()
    other.close()


async def test_a_wait_ends_in_time(desk: Desk) -> None:
    wakeups = await desk.wait()
    assert not await wakeups.wait(0.001)
    await desk.send(b"one", group="g")
    assert await wakeups.wait(POLL_S)
    wakeups.close()


async def test_waiting_again_after_what_one_was_woken_for(standard: Desk) -> None:
    wakeups = await standard.wait()
    for i in range(5):
        await standard.send(b"%d" % i)
        assert await wakeups.wait(POLL_S)
        assert bodies(await standard.take()) == [b"%d" % i]
    assert not await _woken(standard, [wakeups])
    wakeups.close()


@pytest.mark.parametrize("batch", [1, 10, 200])
async def test_two_hundred_wait_and_each_gets_its_message(standard: Desk, batch: int) -> None:
    polls = [asyncio.create_task(standard.poll()) for _ in range(200)]
    await standard.counts()
    everything = numbered(200)
    for start in range(0, 200, batch):
        await standard.send(*everything[start : start + batch])
    received = [message for got in await asyncio.gather(*polls) for message in got.messages]
    assert sorted(bodies(received)) == everything


async def test_two_hundred_wait_for_one_moment(standard: Desk) -> None:
    await standard.send(*numbered(200), delay_ms=60_000)
    polls = [asyncio.create_task(standard.poll()) for _ in range(200)]
    await standard.counts()
    standard.later(60_000)
    received = [message for got in await asyncio.gather(*polls) for message in got.messages]
    assert sorted(bodies(received)) == numbered(200)


@pytest.mark.needs(fifo=True)
async def test_a_chain_of_groups_is_taken_by_those_who_wait(fifo: Desk) -> None:
    """Each delete unlocks the next of its group, and wakes the next who waits for it."""
    for group in range(5):
        await fifo.send(*numbered(6, b"%d " % group), group=f"{group}")
    taken: dict[str, list[bytes]] = {}

    async def work() -> None:
        for _ in range(3):
            (message,) = (await fifo.poll()).messages
            taken.setdefault(message.group, []).append(message.body)
            assert await fifo.delete(message) == [DONE]

    await asyncio.gather(*[work() for _ in range(10)])
    assert taken == {f"{group}": numbered(6, b"%d " % group) for group in range(5)}
