"""How a poll's waiting ends."""

from __future__ import annotations

import asyncio

import pytest

from common.clock import Clock
from cqs.patience import Patience


class Wakeups:
    """Wakes when told; records what was passed on."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.passed_on = 0

    async def wait(self, timeout_s: float) -> bool:
        await self.event.wait()
        self.event.clear()
        return True

    def pass_on(self) -> None:
        self.passed_on += 1

    def close(self) -> None:
        raise AssertionError("its owner closes it")


async def test_woken() -> None:
    clock, wakeups = Clock(), Wakeups()
    patience = Patience(clock, clock.now_ms() + 1_000, None)
    wakeups.event.set()
    assert await patience.woken(wakeups)
    patience.end()
    assert wakeups.passed_on == 0


async def test_over_while_waiting() -> None:
    clock, wakeups = Clock(), Wakeups()
    patience = Patience(clock, clock.now_ms() + 1_000, None)
    waiting = asyncio.create_task(patience.woken(wakeups))
    await asyncio.sleep(0)
    clock.advance(1_001)
    assert not await waiting
    assert not await patience.woken(wakeups)
    patience.end()


@pytest.mark.spec("poll.gone-client-passes-on")
async def test_a_wakeup_that_comes_with_the_end_is_passed_on() -> None:
    clock, wakeups = Clock(), Wakeups()
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    patience = Patience(clock, clock.now_ms() + 1_000, lambda: gone)
    waiting = asyncio.create_task(patience.woken(wakeups))
    await asyncio.sleep(0)
    wakeups.event.set()
    gone.set_result(None)
    assert not await waiting
    patience.end()
    assert wakeups.passed_on == 1


async def test_a_channel_that_fails_is_a_caller_gone() -> None:
    clock = Clock()

    async def hang_up() -> None:
        raise ConnectionError

    patience = Patience(clock, clock.now_ms() + 1_000, hang_up)
    assert not await patience.woken(Wakeups())
    patience.end()


async def test_the_callers_own_cancellation_is_not_swallowed() -> None:
    clock = Clock()
    patience = Patience(clock, clock.now_ms() + 1_000, asyncio.Event().wait)
    waiting = asyncio.create_task(patience.woken(Wakeups()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    patience.end()
