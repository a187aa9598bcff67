"""A lease that expires in Cassandra, as its holder knows it: the holder uses it for a part of its time to live only."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from cns_common.clock import Clock


class LeaseTimes(NamedTuple):
    certain_ms: int
    renew_ms: int


class ProcessLease:
    """Its age is the longer one by two clocks: the monotonic clock stands still while a machine is suspended, and the
    wall clock may be set back."""

    __slots__ = ("_clock", "_monotonic_ms", "_real_ms", "_times", "held")

    def __init__(self, clock: Clock, times: LeaseTimes) -> None:
        self._clock = clock
        self._times = times
        self._monotonic_ms, self._real_ms = clock.monotonic_ms(), clock.real_ms()
        self.held = False

    @property
    def age_ms(self) -> int:
        """The time since the lease was last extended, or first requested."""
        return max(self._clock.monotonic_ms() - self._monotonic_ms, self._clock.real_ms() - self._real_ms)

    @property
    def is_valid(self) -> bool:
        """Whether this process has the lease for sure: nobody else can have acquired it."""
        return self.held and self.age_ms < self._times.certain_ms

    @property
    def due(self) -> bool:
        return not self.held or self.age_ms >= self._times.renew_ms

    async def extend(self, ask: Awaitable[bool]) -> bool:
        """Extend the lease if `ask` does so in Cassandra. Its age counts from the request, not from the answer."""
        monotonic_ms, real_ms = self._clock.monotonic_ms(), self._clock.real_ms()
        self.held = await ask
        if self.held:
            self._monotonic_ms, self._real_ms = monotonic_ms, real_ms
        return self.held
