"""Measures the difference between this machine's clock and Cassandra's. Message time follows Cassandra's.

Each node of Cassandra has a clock, too: a measurement is the median of several readings, which different nodes answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import structlog

from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.errors import CnsError, StoreUnavailable
from cns_common.metrics.catalogue import CLOCK_OFFSET_SECONDS, CLOCK_RECEIVES_REFUSED
from cns_common.metrics.model import Sample
from cns_common.task_cancellation import cancel_and_wait

READINGS = 3
MEASURE_INTERVAL_S = 10.0
CHECK_INTERVAL_S = 1.0
"""The time within which a step of the machine's clock, or the end of a suspension, is noticed."""
NEGLIGIBLE_MS = 250
"""A smaller difference, beyond the error of the measurement, is ignored, so that times do not jitter with each one."""
REFUSED_MS = 5_000
"""A process on a machine whose clock differs by more gives no leases."""

log = structlog.get_logger(__name__)

_NOW = Statement("SELECT toUnixTimestamp(now()) FROM system.local")


class ClockReading(NamedTuple):
    """Cassandra's time when this machine's monotonic clock is 0, and its possible error."""

    origin_ms: int
    error_ms: int


@asynccontextmanager
async def open_clock_skew(cassandra: Cassandra, clock: Clock) -> AsyncIterator[ClockSkew]:
    """The clock comparison that all engines of a process share. Corrects the clock before its first use, takes write
    timestamps from it, and measures until the block ends."""
    skew = ClockSkew(cassandra, clock)
    await skew.begin()
    cassandra.dates.follow(clock)
    measuring = asyncio.create_task(skew.run())
    try:
        yield skew
    finally:
        await cancel_and_wait([measuring])
        await skew.close()


class ClockSkew:
    """Call `ensure` before any other method; it costs nothing while the last measurement is valid.

    Two clocks are compared with Cassandra's. Message time, without a test clock's offset (`Clock.wall_ms`), is
    corrected. The machine's clock is only watched: other parts of the process read it.
    """

    def __init__(self, cassandra: Cassandra, clock: Clock) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._reading: ClockReading | None = None
        self._wall_origin_ms = 0  # the machine's wall clock at 0 of its monotonic clock, when it was measured
        self._ahead_ms = 0
        self._measuring: asyncio.Task[None] | None = None
        self._is_warned = False

    async def begin(self) -> None:
        """Set the clock before its first use. If Cassandra does not answer, a later measurement corrects it."""
        try:
            await self._measure(unused=True)
        except CnsError as error:
            log.warning("clock.comparison_failed", error=str(error))

    async def run(self) -> None:
        """Measure regularly, and soon after the machine's clock was set."""
        while True:
            for _ in range(int(MEASURE_INTERVAL_S / CHECK_INTERVAL_S)):
                await asyncio.sleep(CHECK_INTERVAL_S)
                if not self.known:
                    break
            try:
                await self.measure()
            except CnsError as error:  # the last measurement stays valid
                log.warning("clock.comparison_failed", error=str(error))

    @property
    def known(self) -> bool:
        """Whether a measurement is valid. After the machine's clock was set, or the machine suspended, none is."""
        if self._reading is None:
            return False
        return abs(self._machine_origin_ms() - self._wall_origin_ms) <= NEGLIGIBLE_MS

    @property
    def bound_ms(self) -> int:
        """The largest difference between the corrected time of this process and Cassandra's."""
        return NEGLIGIBLE_MS + 2 * (self._reading.error_ms if self._reading else 0)

    @property
    def offset_ms(self) -> int:
        """The lead of message time over Cassandra's clock by the last measurement; 0 if there is none."""
        return self._ahead_of_cassandra_ms(self._clock.wall_ms)

    @property
    def machine_offset_ms(self) -> int:
        """The lead of the machine's clock over Cassandra's by the last measurement; 0 if there is none."""
        return self._ahead_of_cassandra_ms(self._clock.real_ms)

    def _ahead_of_cassandra_ms(self, read_ms: Callable[[], int]) -> int:
        if self._reading is None:
            return 0
        return read_ms() - (self._clock.monotonic_ms() + self._reading.origin_ms)

    @property
    def ahead_ms(self) -> int:
        """The milliseconds to subtract from times of this process: 0 for a clock that counts as right."""
        offset_ms = self.offset_ms
        if abs(offset_ms - self._ahead_ms) > self.bound_ms:
            self._ahead_ms = offset_ms
        return self._ahead_ms

    async def ensure(self) -> None:
        """Measure unless the last measurement is valid. Raises StoreUnavailable if that fails."""
        if not self.known:
            await self.measure()

    async def measure(self) -> None:
        """One measurement for all callers that wait."""
        if self._measuring is None:
            self._measuring = asyncio.create_task(self._measure())
            self._measuring.add_done_callback(self._measured)
        await asyncio.shield(self._measuring)

    def refuse_if_wrong(self) -> None:
        """Raise StoreUnavailable if the machine's clock is so wrong that this process must give no leases, or if that
        is not known."""
        if self._reading is None:
            raise StoreUnavailable("this machine's clock was not compared with Cassandra's yet")
        offset_ms = max(self.machine_offset_ms, self.offset_ms, key=abs)
        if self._is_refused(self._reading):
            raise StoreUnavailable(f"this machine's clock is {_difference(offset_ms)} Cassandra's")

    def _is_refused(self, reading: ClockReading) -> bool:
        return max(abs(self.machine_offset_ms), abs(self.offset_ms)) > REFUSED_MS + reading.error_ms

    def samples(self) -> list[Sample]:
        if self._reading is None:
            return []
        return [
            CLOCK_OFFSET_SECONDS.sample(self.machine_offset_ms / 1000),
            CLOCK_RECEIVES_REFUSED.sample(int(self._is_refused(self._reading))),
        ]

    async def close(self) -> None:
        """Cancel a measurement whose callers have gone."""
        if self._measuring is not None:
            await cancel_and_wait([self._measuring])

    async def _measure(self, *, unused: bool = False) -> None:
        wall_origin_ms = self._machine_origin_ms()
        readings = sorted([await self._read() for _ in range(READINGS)])
        self._reading, self._wall_origin_ms = readings[READINGS // 2], wall_origin_ms
        offset_ms = self.offset_ms
        self._clock.correct(-offset_ms if abs(offset_ms) > self.bound_ms else 0, unused=unused)
        self._warn()

    def _warn(self) -> None:
        """Log when the machine's clock begins to differ, and when it does not differ any more."""
        offset_ms = self.machine_offset_ms
        is_wrong = abs(offset_ms) > self.bound_ms
        if is_wrong and not self._is_warned:
            log.warning("clock.skew_detected", seconds=offset_ms / 1000, receives_refused=abs(offset_ms) > REFUSED_MS)
        elif self._is_warned and not is_wrong:
            log.info("clock.skew_cleared")
        self._is_warned = is_wrong

    async def _read(self) -> ClockReading:
        before_ms = self._clock.monotonic_ms()
        ((now_ms,),) = await self._cassandra.run(_NOW)
        after_ms = self._clock.monotonic_ms()
        return ClockReading(now_ms - (before_ms + after_ms) // 2, (after_ms - before_ms + 1) // 2)

    def _measured(self, task: asyncio.Task[None]) -> None:
        self._measuring = None
        if not task.cancelled():
            task.exception()  # its callers may be gone

    def _machine_origin_ms(self) -> int:
        return self._clock.real_ms() - self._clock.monotonic_ms()


def _difference(offset_ms: int) -> str:
    return f"{abs(offset_ms) // 1000} s {'ahead of' if offset_ms > 0 else 'behind'}"
