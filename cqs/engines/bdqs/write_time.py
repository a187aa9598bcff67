"""Refuses writes of operations that began too long ago: their slot may be retired by then."""

from __future__ import annotations

from cns_common.clock import Clock
from cns_common.cluster.stopwatch import Stopwatch
from cns_common.errors import StoreUnavailable
from cqs.engines.bdqs import schema


def check_write(began: Stopwatch, clock: Clock) -> None:
    """Raise StoreUnavailable if the slots that the operation chose may be retired by now. Start `began` before the
    clock is compared with Cassandra's: a machine may be suspended at any moment; only the wall clock runs on then."""
    if began.elapsed_ms(clock) > schema.WRITE_MS_MAX:
        raise StoreUnavailable("a write to a queue's index took too long")
