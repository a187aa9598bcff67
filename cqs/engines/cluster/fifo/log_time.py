"""Times in a FIFO queue's log are Cassandra's, whatever the clocks of the processes show."""

from __future__ import annotations

from cns_common.clock import Clock
from cqs.engines.cassandra.clock_skew import ClockSkew

AHEAD_MS_MAX = 1_000
"""A queue whose time is further ahead, beyond the error of the measurement, is set back."""


class LogTime:
    """Converts times of this process's callers to those of the log, and back. Call `ensure` before."""

    def __init__(self, clock: Clock, skew: ClockSkew) -> None:
        self._clock = clock
        self._skew = skew

    async def ensure(self) -> None:
        await self._skew.ensure()

    def now_ms(self) -> int:
        return self.to_log(self._clock.now_ms())

    def wall_ms(self) -> int:
        """The log's time without a test clock's offset."""
        return self.to_log(self._clock.wall_ms())

    def to_log(self, ms: int) -> int:
        """0 stands for no time, here and in `to_process`."""
        return ms - self._skew.ahead_ms if ms else 0

    def to_process(self, ms: int) -> int:
        return ms + self._skew.ahead_ms if ms else 0

    def is_ahead(self, queue_ms: int) -> bool:
        """Whether a process with a wrong clock moved this queue's time into the future. Never with a test clock, whose
        offset reaches processes one after the other."""
        if self._clock.is_test or not self._skew.known:
            return False
        return queue_ms > self.now_ms() + AHEAD_MS_MAX + self._skew.bound_ms
