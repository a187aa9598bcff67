"""Waiters are woken when messages become visible, for every cause, and no more of them than needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Change, Settlement, Waiter
from tests.conformance.support import DONE, POLL_S, QueueFixture, bodies, numbered

pytestmark = pytest.mark.differs_by_engine


async def _woken(queue: QueueFixture, waiting: Sequence[Waiter]) -> list[Waiter]:
    """The waiters that are woken by now."""
    await queue.counts()  # this call ends after earlier wake-ups have arrived
    return [waiter for waiter in waiting if await waiter.wait(0)]


async def test_no_wake_up_without_a_cause(queue: QueueFixture) -> None:
    waiter = await queue.wait()
    assert not await _woken(queue, [waiter])


@pytest.mark.spec("poll.woken-by-send")
@pytest.mark.every_engine
async def test_by_a_send(queue: QueueFixture) -> None:
    waiter = await queue.wait()
    await queue.send(b"one", group="g")
    assert await waiter.wait(POLL_S)
    assert bodies(await queue.take()) == [b"one"]


@pytest.mark.spec("poll.woken-after-purge")
async def test_by_a_send_after_a_purge(queue: QueueFixture) -> None:
    """To a group that was locked."""
    await queue.send(b"held", group="g")
    await queue.take_one()
    waiter = await queue.wait()
    await queue.purge()
    await queue.send(b"one", group="g")
    assert await waiter.wait(POLL_S)
    assert bodies(await queue.take()) == [b"one"]


async def test_by_a_settlement(queue: QueueFixture, clock: Clock) -> None:
    other = QueueFixture(queue.engine, clock)
    waiter = await queue.wait()
    await other.engine.settle(Settlement(sends=((queue.q, queue.entry(b"one", group="g")),)), queue.now_ms)
    assert await waiter.wait(POLL_S)


@pytest.mark.spec("poll.woken-by-delay")
async def test_by_the_end_of_a_delay(queue: QueueFixture) -> None:
    waiter = await queue.wait()
    await queue.send(b"one", group="g", delay_ms=60_000)
    while await _woken(queue, [waiter]):  # an engine may wake for the send itself: then the waiter must receive
        assert not await queue.take()
    queue.advance(60_000)
    assert await waiter.wait(POLL_S)
    assert bodies(await queue.take()) == [b"one"]


async def test_by_the_end_of_a_delay_that_began_before(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g", delay_ms=60_000)
    waiter = await queue.wait()
    queue.advance(60_000)
    assert await waiter.wait(POLL_S)


@pytest.mark.spec("poll.woken-by-timeout")
@pytest.mark.every_engine
async def test_by_the_end_of_a_visibility_timeout(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    await queue.take_one(600_000)
    waiter = await queue.wait()
    queue.advance(590_000)
    assert not await _woken(queue, [waiter])
    queue.advance(10_000)
    assert await waiter.wait(POLL_S)
    assert bodies(await queue.take()) == [b"one"]


async def test_by_the_soonest_of_many(standard: QueueFixture) -> None:
    await standard.send(*numbered(5))
    for i in range(5):
        await standard.take_one(60_000 * (5 - i))
    waiter = await standard.wait()
    for i in range(5):
        standard.advance(60_000)
        assert await waiter.wait(POLL_S)
        assert bodies(await standard.take(hide_ms=3_600_000)) == [b"%06d" % (4 - i)]


@pytest.mark.spec("poll.woken-by-change")
@pytest.mark.parametrize("to_ms", [0, 5_000])
async def test_by_a_change_of_visibility(queue: QueueFixture, to_ms: int) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one(600_000)
    waiter = await queue.wait()
    await queue.hide(message, to_ms)
    if to_ms:
        while await _woken(queue, [waiter]):
            assert not await queue.take()
        queue.advance(to_ms)
    assert await waiter.wait(POLL_S)
    assert bodies(await queue.take()) == [b"one"]


@pytest.mark.spec("poll.woken-by-unlock")
@pytest.mark.needs(fifo=True)
@pytest.mark.parametrize("how", ["delete", "settle", "expiry"])
async def test_by_the_unlocking_of_a_group(fifo: QueueFixture, how: str) -> None:
    await fifo.send(b"1", b"2", group="g")
    message = await fifo.take_one(60_000)
    waiter = await fifo.wait()
    if how == "delete":
        assert await fifo.delete(message) == [DONE]
    elif how == "settle":
        await fifo.engine.settle(Settlement(deletes=((fifo.q, message.handle),)), fifo.now_ms)
    else:
        fifo.advance(60_000)
    assert await waiter.wait(POLL_S)
    assert bodies(await fifo.take()) == ([b"1", b"2"] if how == "expiry" else [b"2"])


@pytest.mark.needs(update_body=True)
async def test_not_needlessly_by_a_change_of_body(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one(600_000)
    waiter = await queue.wait()
    await queue.engine.change(queue.q, [Change(message.handle, None, b"two")], queue.now_ms)
    assert not await _woken(queue, [waiter])


@pytest.mark.every_engine
async def test_a_drop_wakes_every_waiter(queue: QueueFixture) -> None:
    waiting = [await queue.wait() for _ in range(20)]
    await queue.drop()
    assert await asyncio.gather(*[waiter.wait(POLL_S) for waiter in waiting]) == [True] * 20
    assert (await queue.receive()).dropped


async def test_not_by_another_queue(queue: QueueFixture, clock: Clock, fifo_queue: bool) -> None:
    other = QueueFixture(queue.engine, clock, fifo=fifo_queue)
    waiter = await queue.wait()
    await other.send(b"one", group="g")
    await other.drop()
    assert not await _woken(queue, [waiter])


@pytest.mark.parametrize("n", [1, 3, 10])
async def test_as_many_are_woken_as_there_are_messages(standard: QueueFixture, n: int) -> None:
    waiting = [await standard.wait() for _ in range(10)]
    await standard.send(*numbered(n))
    assert len(await _woken(standard, waiting)) == n


async def test_the_longest_waiting_are_woken_first(standard: QueueFixture) -> None:
    waiting = [await standard.wait() for _ in range(5)]
    for i in range(5):
        await standard.send(b"one")
        assert await _woken(standard, waiting) == [waiting[i]]
        await standard.take()


async def test_after_a_full_batch_the_next_waiter_is_woken(standard: QueueFixture) -> None:
    """Ten messages return at once, and each receive takes one of them."""
    await standard.send(*numbered(10))
    await standard.take(10, hide_ms=60_000)
    waiting = [await standard.wait() for _ in range(10)]
    standard.advance(60_000)
    taken: list[bytes] = []
    for waiter in waiting:
        assert await waiter.wait(POLL_S)
        taken += bodies(await standard.take(1))
    assert sorted(taken) == numbered(10)


async def test_a_woken_waiter_that_closes_wakes_another(standard: QueueFixture) -> None:
    waiting = [await standard.wait() for _ in range(10)]
    await standard.send(b"one")
    await standard.counts()
    for waiter in waiting[:-1]:
        waiter.close()
    assert await waiting[-1].wait(POLL_S)
    assert bodies(await standard.take()) == [b"one"]


async def test_a_woken_waiter_can_pass_on_its_wake_up(standard: QueueFixture) -> None:
    first, second = [await standard.wait() for _ in range(2)]
    await standard.send(b"one")
    assert await first.wait(POLL_S)
    first.pass_on()
    assert await second.wait(POLL_S)


async def test_a_waiter_closed_during_its_wake_up_wakes_another(standard: QueueFixture) -> None:
    """A poll's caller disconnects while its wake-up is on the way: another poll gets it."""
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


async def test_closing_ends_a_wait(queue: QueueFixture) -> None:
    waiter = await queue.wait()
    waiting = asyncio.create_task(waiter.wait())
    await asyncio.sleep(0)
    waiter.close()
    assert not await waiting
    assert not await waiter.wait()


@pytest.mark.parametrize("turns", range(6))
async def test_a_send_during_a_receive_wakes(queue: QueueFixture, turns: int) -> None:
    """A send to a queue that is known to be empty: the receive finds the message, or the wait after it ends."""
    assert not await queue.take()
    sending = asyncio.create_task(queue.send(b"one", group="g"))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert bodies((await queue.poll()).messages) == [b"one"]
    await sending


async def test_closing_is_idempotent(standard: QueueFixture) -> None:
    closed, other = await standard.wait(), await standard.wait()
    closed.close()
    closed.close()
    await standard.send(b"one")
    assert await _woken(standard, [other]) == [other]
    other.close()
    other.close()


async def test_a_wait_ends_in_time(queue: QueueFixture) -> None:
    waiter = await queue.wait()
    assert not await waiter.wait(0.001)
    await queue.send(b"one", group="g")
    assert await waiter.wait(POLL_S)


async def test_waiting_again_after_a_wake_up(standard: QueueFixture) -> None:
    waiter = await standard.wait()
    for i in range(5):
        await standard.send(b"%d" % i)
        assert await waiter.wait(POLL_S)
        assert bodies(await standard.take()) == [b"%d" % i]
    assert not await _woken(standard, [waiter])


@pytest.mark.parametrize("batch", [1, 10, 200])
async def test_two_hundred_wait_and_each_gets_its_message(standard: QueueFixture, batch: int) -> None:
    polls = [asyncio.create_task(standard.poll()) for _ in range(200)]
    await standard.counts()
    everything = numbered(200)
    for start in range(0, 200, batch):
        await standard.send(*everything[start : start + batch])
    received = [message for got in await asyncio.gather(*polls) for message in got.messages]
    assert sorted(bodies(received)) == everything


async def test_two_hundred_wait_for_one_moment(standard: QueueFixture) -> None:
    await standard.send(*numbered(200), delay_ms=60_000)
    polls = [asyncio.create_task(standard.poll()) for _ in range(200)]
    await standard.counts()
    standard.advance(60_000)
    received = [message for got in await asyncio.gather(*polls) for message in got.messages]
    assert sorted(bodies(received)) == numbered(200)


@pytest.mark.needs(fifo=True)
async def test_each_unlocked_message_wakes_a_waiter(fifo: QueueFixture) -> None:
    """Each delete unlocks the group's next message and wakes the next waiter."""
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
