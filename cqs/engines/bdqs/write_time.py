"""How long ago an operation began, so that what it writes to a slot does not come after the slot was retired."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.bdqs import schema


class WriteTime(NamedTuple):
    """When an operation began. Take it before the clock is compared with Cassandra's: a machine may be suspended at any
    moment, and only the wall clock goes on meanwhile."""

    monotonic_ms: int
    real_ms: int

    def check(self, clock: Clock) -> None:
        """Raise StoreUnavailable if the slots that the operation chose may be retired by now."""
        passed_ms = max(clock.monotonic_ms() - self.monotonic_ms, abs(clock.real_ms() - self.real_ms))
        if passed_ms > schema.WRITE_MS_MAX:
            raise StoreUnavailable("a write to a queue's index took too long")


def begin_write(clock: Clock) -> WriteTime:
    return WriteTime(clock.monotonic_ms(), clock.real_ms())
