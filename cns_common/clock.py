"""The clock: the only source of time above the service line, and of timers.

Message time is wall time at start plus monotonic time since. It never runs backwards within a process, and `not_before`
starts it no earlier than the highest time that the store has seen. It follows a wall clock that steps forward (NTP, a
resumed laptop), and not one that steps back. A test clock has an offset that grows.

In the cluster form it follows Cassandra's clock instead, by `correct`: forward at once, back by standing still.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import structlog

TIMER_S_MAX = 3600.0
"""A longer timer is set again when it fires."""
STEP_NS = 60 * 1_000_000_000
"""A smaller difference between the wall clock and message time is not a step."""
STEP_SHOWN_NS = 3_600 * 1_000_000_000
"""`warning` reports a step forward for this long."""
READ_NS_MAX = 1_000_000_000
"""A pair of readings that took longer is ignored: the process was stopped between the two."""

log = structlog.get_logger(__name__)


class Clock:
    """Times are milliseconds since the epoch, UTC. `test`: a test clock, whose offset a step of the wall clock keeps.

    `wall_ns` and `monotonic_ns` read the machine's clocks; tests replace them.
    """

    def __init__(
        self,
        *,
        test: bool = False,
        wall_ns: Callable[[], int] = time.time_ns,  # noqa: TID251  # the one clock
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._test = test
        self._read_wall_ns = wall_ns
        self._read_monotonic_ns = monotonic_ns
        self._origin_ns = wall_ns() - monotonic_ns()  # message time at 0 of the monotonic clock, without the offset
        self._total_ns = self._origin_ns  # the same with the offset, in one number that threads read at once
        self._corrected = False
        self._floor_ns = self._total_floor_ns = 0  # while time stands still, without and with the offset
        self._following = threading.Lock()
        self._timers: set[Timer] = set()
        self._logged_lead_ns = 0
        self._step_ns = 0
        self._step_seen_ns = 0  # on the monotonic clock

    def now_ms(self) -> int:
        """Message time. It never goes back; see the module."""
        monotonic_ns = self._read_monotonic_ns()
        if self._corrected:
            return max(self._total_ns + monotonic_ns, self._total_floor_ns) // 1_000_000
        if not -STEP_NS < self._read_wall_ns() - monotonic_ns - self._origin_ns < STEP_NS:
            self._follow_wall()
        return (self._total_ns + monotonic_ns) // 1_000_000

    def wall_ms(self) -> int:
        """Message time without the offset."""
        monotonic_ns = self._read_monotonic_ns()
        if self._corrected:
            return max(self._origin_ns + monotonic_ns, self._floor_ns) // 1_000_000
        if not -STEP_NS < self._read_wall_ns() - monotonic_ns - self._origin_ns < STEP_NS:
            self._follow_wall()
        return (self._origin_ns + monotonic_ns) // 1_000_000

    def real_ms(self) -> int:
        """The machine's wall clock, steps included. Signatures and certificates are checked by it."""
        return self._read_wall_ns() // 1_000_000

    def correct(self, by_ms: int, *, unused: bool = False) -> None:
        """Move message time by what a better clock says; from now on the wall clock is not followed.

        Back it moves by standing still until the time has come again, unless it is `unused`: nobody has asked for it.
        """
        with self._following:
            if not unused:
                monotonic_ns = self._read_monotonic_ns()
                self._floor_ns = max(self._floor_ns, self._origin_ns + monotonic_ns)
                self._total_floor_ns = max(self._total_floor_ns, self._total_ns + monotonic_ns)
            self._corrected = True
            self._origin_ns += by_ms * 1_000_000
            self._total_ns += by_ms * 1_000_000
        for timer in list(self._timers):
            timer.arm()

    def monotonic_ms(self) -> int:
        """The machine's monotonic clock. It stands still while the machine is suspended."""
        return self._read_monotonic_ns() // 1_000_000

    @property
    def is_test(self) -> bool:
        return self._test

    def warning(self) -> str:
        """Describe the fault of the machine's clock for a person; '' without a fault."""
        if self._corrected:
            return ""
        self.wall_ms()  # notices a step that no other call has noticed
        lead_ns = self._lead_ns()
        if lead_ns > STEP_NS:
            return f"the wall clock is {lead_ns // 1_000_000_000} s behind the time of messages"
        if self._step_ns and self._read_monotonic_ns() - self._step_seen_ns < STEP_SHOWN_NS:
            return f"the wall clock stepped forward by {self._step_ns // 1_000_000_000} s within the last hour"
        return ""

    def not_before(self, high_ms: int) -> None:
        """Start no earlier than the highest time that a store has seen: the wall clock may have been set back."""
        self.follow(high_ms - self.wall_ms())

    @property
    def offset_ms(self) -> int:
        return (self._total_ns - self._origin_ns) // 1_000_000

    def advance(self, by_ms: int) -> None:
        """Move a test clock forward; every timer that is now due fires."""
        self.follow(self.offset_ms + by_ms)

    def follow(self, offset_ms: int) -> None:
        """Take over another process's offset, unless time would go back."""
        if offset_ms <= self.offset_ms:
            return
        total_ns = self._origin_ns + offset_ms * 1_000_000
        self._total_floor_ns += total_ns - self._total_ns
        self._total_ns = total_ns
        for timer in list(self._timers):
            timer.arm()

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running loop at `at_ms`."""
        timer = Timer(self, at_ms, callback)
        self._timers.add(timer)
        timer.arm()
        return timer

    def forget(self, timer: Timer) -> None:
        self._timers.discard(timer)

    def _lead_ns(self) -> int:
        """The lead of message time, without a test clock's offset, over the wall clock, in ns."""
        origin_ns = self._origin_ns if self._test else self._total_ns
        return origin_ns + self._read_monotonic_ns() - self._read_wall_ns()

    def _follow_wall(self) -> None:
        """Follow a step forward; log a step in either direction. May run in any thread."""
        with self._following:
            before_ns = self._read_monotonic_ns()
            wall_ns = self._read_wall_ns()
            monotonic_ns = self._read_monotonic_ns()
            if monotonic_ns - before_ns > READ_NS_MAX:
                return
            origin_ns = wall_ns - monotonic_ns
            step_ns = origin_ns - self._origin_ns
            if step_ns >= STEP_NS:
                # the offset of a clock that is no test clock is the lead over the wall clock, which has caught up
                self._total_ns = self._total_ns + step_ns if self._test else max(self._total_ns, origin_ns)
                self._origin_ns = origin_ns
                self._step_ns, self._step_seen_ns, self._logged_lead_ns = step_ns, monotonic_ns, 0
                log.warning("clock.stepped_forward", seconds=step_ns // 1_000_000_000)
                self._arm_soon()
            elif step_ns <= -STEP_NS and abs(step_ns + self._logged_lead_ns) >= STEP_NS:
                self._logged_lead_ns = -step_ns
                log.warning("clock.stepped_back", seconds=-step_ns // 1_000_000_000)

    def _arm_soon(self) -> None:
        for loop in {timer.loop for timer in list(self._timers)}:
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(self._arm_timers, loop)

    def _arm_timers(self, loop: asyncio.AbstractEventLoop) -> None:
        for timer in list(self._timers):
            if timer.loop is loop:
                timer.arm()


class Timer:
    """One pending call; `cancel` is idempotent."""

    __slots__ = ("_callback", "_clock", "_handle", "at_ms", "loop")

    def __init__(self, clock: Clock, at_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self.loop = asyncio.get_running_loop()
        self.at_ms = at_ms

    def arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        delay_s = min((self.at_ms - self._clock.now_ms()) / 1000, TIMER_S_MAX)
        self._handle = self.loop.call_later(max(delay_s, 0.0), self._fire)

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
