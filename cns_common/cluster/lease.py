"""A lease that expires in its store, as its holder knows it: the holder uses it for a part of its time to live only."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from cns_common.clock import Clock
from cns_common.cluster.stopwatch import Stopwatch, start_stopwatch


class LeaseTimes(NamedTuple):
    certain_ms: int
    """The holder acts for this long after it began to take or extend the lease: less than the row's time to live."""
    renew_ms: int


class Lease:
    """Its age is the longer one by two clocks (`Stopwatch`), and counts from the request, not from the answer."""

    __slots__ = ("_clock", "_since", "_times", "held")

    def __init__(self, clock: Clock, times: LeaseTimes) -> None:
        self._clock = clock
        self._times = times
        self._since = start_stopwatch(clock)
        self.held = False

    @property
    def age_ms(self) -> int:
        """The time since the lease was last extended, or first requested."""
        return self._since.elapsed_ms(self._clock)

    @property
    def is_certain(self) -> bool:
        """Whether this process has the lease for sure: nobody else can have acquired it."""
        return self.held and self.age_ms < self._times.certain_ms

    @property
    def is_due(self) -> bool:
        """Whether it is time to take or extend it."""
        return not self.held or self.age_ms >= self._times.renew_ms

    async def extend(self, ask: Awaitable[bool]) -> bool:
        """Extend the lease if `ask` does so in the store."""
        since = self.begin()
        if await ask:
            self.hold(since)
        else:
            self.end()
        return self.held

    def begin(self) -> Stopwatch:
        """The moment before a request whose answer `hold` takes."""
        return start_stopwatch(self._clock)

    def hold(self, since: Stopwatch) -> None:
        """The request that began then has taken or extended the lease. One that is answered after a later one does not
        shorten it."""
        self._since = max(since, self._since) if self.held else since
        self.held = True

    def end(self) -> None:
        self.held = False
