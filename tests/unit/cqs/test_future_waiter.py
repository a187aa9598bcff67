"""The ends of a wait of a `FutureWaiter`."""

from __future__ import annotations

import asyncio

import pytest

from cqs.engines.waiters import FutureWaiter


class Waiter(FutureWaiter):
    """Counts its wake-ups, and records unused ones."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0
        self.unused: list[bool] = []

    def pass_on(self) -> None:
        """There is no other waiter."""

    def _on_wake(self) -> None:
        self.taken += 1

    def _on_close(self) -> None:
        self.unused.append(self.woken)


async def asleep(waiter: Waiter) -> asyncio.Task[bool]:
    waiting = asyncio.create_task(waiter.wait())
    await asyncio.sleep(0)
    return waiting


@pytest.mark.spec("poll.gone-client-passes-on")
async def test_a_waiter_closed_during_its_wake_up_wakes_another() -> None:
    waiter = Waiter()
    waiting = await asleep(waiter)
    waiter.wake()
    waiter.close()
    assert not await waiting
    assert (waiter.taken, waiter.unused) == (0, [True])


async def test_cancelled_in_the_moment_it_is_woken() -> None:
    waiter = Waiter()
    waiting = await asleep(waiter)
    waiter.wake()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    waiter.close()
    assert (waiter.taken, waiter.unused) == (0, [True])


async def test_a_wakeup_that_was_returned_is_not_left_behind() -> None:
    waiter = Waiter()
    waiter.wake()
    assert await waiter.wait()
    waiter.close()
    assert waiter.unused == [False]
