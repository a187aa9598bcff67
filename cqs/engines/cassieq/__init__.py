"""The engine on Cassandra alone, named `cassieq`: messages in fixed-size buckets by monotonic numbers, three pointers,
conditional writes instead of locks.

It follows CassieQ (seed 001), and mends three of its faults: a long lease delays no other message (`hidden`), numbers
are allocated for many messages at a time (`monotons`), and no acknowledged send depends on repair (`sending`)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassieq.engine import NAME, CassieqEngine

__all__ = ["CassieqEngine", "open_engine"]

POLL_INTERVAL_S = 1.0
"""The interval at which queues with waiters are looked at for messages of other processes."""
MAINTENANCE_INTERVAL_S = 5.0


@contextlib.asynccontextmanager
async def open_engine(cassandra: Cassandra, clock: Clock, skew: ClockSkew) -> AsyncIterator[CassieqEngine]:
    """The engine and its background tasks."""
    engine = CassieqEngine(cassandra, clock, skew)
    async with engine.running(NAME, POLL_INTERVAL_S, MAINTENANCE_INTERVAL_S):
        yield engine
