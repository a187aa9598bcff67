"""The engine `pipes`, on Cassandra alone: the design of cassandra-queue (seed 003), without its locks and faults.

Each pusher fills pipes of its own, of at most `PipeSize` messages, so that a push needs no lock and no read. A popper
has the lease on the pipes that it pops. docs/adr/0028-pipes.md has the decisions.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.pipes.engine import NAME, PipesEngine
from cqs.engines.pipes.names import NODE_DIGITS
from cqs.engines.pipes.rows import PipeRows

__all__ = ["PipesEngine", "open_engine"]

POLL_INTERVAL_S = 0.5
"""The longest delay with which a waiter learns of a message that another process sent."""
MAINTENANCE_INTERVAL_S = 15.0


@contextlib.asynccontextmanager
async def open_engine(cassandra: Cassandra, clock: Clock, skew: ClockSkew) -> AsyncIterator[PipesEngine]:
    """The engine and its background tasks. `skew` is that of the process."""
    node = hex_id()[:NODE_DIGITS]
    engine = PipesEngine(PipeRows(cassandra, clock), QueueGenerations(cassandra), clock, skew, node)
    releasing = engine.release_step, POLL_INTERVAL_S
    async with engine.running(NAME, POLL_INTERVAL_S, MAINTENANCE_INTERVAL_S, releasing):
        yield engine
