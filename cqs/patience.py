"""How long a poll waits: until its deadline comes by the clock, or its caller hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from common.clock import Clock
from cqs.engines.contract import Wakeups

HangUp = Callable[[], Awaitable[Any]]
"""Returns once the caller has gone."""

_ENGINE_WAIT_S = 3_600.0  # longer than any poll: the deadline below ends it, because a test clock can be advanced


class Patience:
    """One poll's. `end` must be called."""

    __slots__ = ("_gone", "_over", "_scope", "_timer")

    def __init__(self, clock: Clock, until_ms: int, hang_up: HangUp | None) -> None:
        self._over = False
        self._scope: asyncio.Timeout | None = None
        self._timer = clock.call_at(until_ms, self._expire)
        self._gone = asyncio.ensure_future(hang_up()) if hang_up is not None else None
        if self._gone is not None:
            self._gone.add_done_callback(self._hung_up)

    async def woken(self, wakeups: Wakeups) -> bool:
        """True when there is something to receive, False when it is time to give up."""
        if self.over:
            return False
        try:
            async with asyncio.timeout(None) as self._scope:
                woken = await wakeups.wait(_ENGINE_WAIT_S)
        except TimeoutError:
            return False
        finally:
            self._scope = None
        if woken and self.over:
            wakeups.pass_on()
            return False
        return woken

    def end(self) -> None:
        self._timer.cancel()
        if self._gone is not None:
            self._gone.cancel()

    @property
    def over(self) -> bool:
        return self._over or (self._gone is not None and self._gone.done())

    def _hung_up(self, gone: asyncio.Future[Any]) -> None:
        if not gone.cancelled():
            gone.exception()  # a channel that fails is a caller gone, too
            self._expire()

    def _expire(self) -> None:
        self._over = True
        if self._scope is not None:
            self._scope.reschedule(0.0)
