"""A lease that Cassandra's clock ends, as its holder knows it: certain for a part of its life only."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from cns_common.clock import Clock


class LeaseTimes(NamedTuple):
    certain_ms: int
    renew_ms: int


class ProcessLease:
    """Its age is that of the clock that says more: the monotonic clock stands still while a machine is suspended, and
    the wall clock may be set back."""

    __slots__ = ("_clock", "_monotonic_ms", "_real_ms", "_times", "held")

    def __init__(self, clock: Clock, times: LeaseTimes) -> None:
        self._clock = clock
        self._times = times
        self._monotonic_ms, self._real_ms = clock.monotonic_ms(), clock.real_ms()
        self.held = False

    @property
    def age_ms(self) -> int:
        """The time since it was extended, before that since it was first wanted."""
        return max(self._clock.monotonic_ms() - self._monotonic_ms, self._clock.real_ms() - self._real_ms)

    @property
    def is_valid(self) -> bool:
        """Whether this process certainly has the lease: no other one can have got it since."""
        return self.held and self.age_ms < self._times.certain_ms

    @property
    def due(self) -> bool:
        return not self.held or self.age_ms >= self._times.renew_ms

    async def extend(self, ask: Awaitable[bool]) -> bool:
        """Extend it if `ask` does so in Cassandra. It is as old as the question, not as the answer."""
        monotonic_ms, real_ms = self._clock.monotonic_ms(), self._clock.real_ms()
        self.held = await ask
        if self.held:
            self._monotonic_ms, self._real_ms = monotonic_ms, real_ms
        return self.held
