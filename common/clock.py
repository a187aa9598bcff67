"""The one source of time above the service line, and the only one that timers are set on.

Wall time at start plus monotonic time since: it never runs backwards within a process, and `not_before` keeps it from
starting behind the highest time the store has seen. A test clock is the same thing with an offset that grows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

MAX_TIMER_S = 3600.0  # a timer longer than this is set again when it fires


class Clock:
    """Milliseconds since the epoch, UTC."""

    def __init__(self) -> None:
        self._origin_ns = time.time_ns() - time.monotonic_ns()
        self._offset_ms = 0
        self._timers: set[Timer] = set()

    def now_ms(self) -> int:
        return (self._origin_ns + time.monotonic_ns()) // 1_000_000 + self._offset_ms

    def wall_ms(self) -> int:
        """Time without the test offset: what signatures and certificates are checked against."""
        return (self._origin_ns + time.monotonic_ns()) // 1_000_000

    def not_before(self, high_ms: int) -> None:
        """Start no earlier than the highest time a store has seen: the wall clock may have been set back."""
        self.follow(high_ms - self.wall_ms())

    @property
    def offset_ms(self) -> int:
        return self._offset_ms

    def advance(self, by_ms: int) -> None:
        """Move a test clock forward; every timer that is now due fires."""
        self.follow(self._offset_ms + by_ms)

    def follow(self, offset_ms: int) -> None:
        """Take over another process's offset, unless that would turn time back."""
        if offset_ms <= self._offset_ms:
            return
        self._offset_ms = offset_ms
        for timer in list(self._timers):
            timer.arm()

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running loop once `at_ms` has come."""
        timer = Timer(self, at_ms, callback)
        self._timers.add(timer)
        timer.arm()
        return timer

    def forget(self, timer: Timer) -> None:
        self._timers.discard(timer)


class Timer:
    """One pending call; `cancel` is idempotent."""

    __slots__ = ("_callback", "_clock", "_handle", "_loop", "at_ms")

    def __init__(self, clock: Clock, at_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self.at_ms = at_ms

    def arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        delay_s = min((self.at_ms - self._clock.now_ms()) / 1000, MAX_TIMER_S)
        self._handle = self._loop.call_later(max(delay_s, 0.0), self._fire)

    def _fire(self) -> None:
        if self._clock.now_ms() < self.at_ms:
            self.arm()
            return
        self._clock.forget(self)
        self._handle = None
        self._callback()

    def cancel(self) -> None:
        self._clock.forget(self)
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
