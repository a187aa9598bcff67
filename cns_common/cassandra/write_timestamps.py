"""The dates of writes whose statement names none. Of two writes the one with the later date stays, whichever came last:
they must not come from the machine's own clock, which may be wrong."""

from __future__ import annotations

import threading

from cns_common.clock import Clock


class WriteDates:
    """Message time, without a test clock's offset, in µs; rising from call to call. Threads may share it."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._last_us = 0
        self._lock = threading.Lock()

    def follow(self, clock: Clock) -> None:
        """Take the dates from this clock, which is corrected by Cassandra's."""
        self._clock = clock

    def __call__(self) -> int:
        with self._lock:
            self._last_us = max(self._clock.wall_ms() * 1000, self._last_us + 1)
            return self._last_us
