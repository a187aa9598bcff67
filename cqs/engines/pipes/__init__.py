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
from cns_common.task_cancellation import wait_at_most
from cqs.engines.cassandra.background import background_steps
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.pipes.engine import PipesEngine
from cqs.engines.pipes.names import NODE_DIGITS
from cqs.engines.pipes.rows import PipeRows

__all__ = ["PipesEngine", "open_engine"]

POLL_INTERVAL_S = 0.5
"""The longest delay with which a waiter learns of a message that another process sent."""
MAINTENANCE_INTERVAL_S = 15.0
MAINTENANCE_ROWS = 500
CLOSE_S_MAX = 5.0
"""Limit for finishing pipes and giving up leases at the end; leases that are left expire."""


@contextlib.asynccontextmanager
async def open_engine(cassandra: Cassandra, clock: Clock, skew: ClockSkew) -> AsyncIterator[PipesEngine]:
    """The engine and its background tasks. `skew` is that of the process."""
    node = hex_id()[:NODE_DIGITS]
    engine = PipesEngine(PipeRows(cassandra, clock), QueueGenerations(cassandra), clock, skew, node)

    async def maintain_queues() -> bool:
        return await engine.maintain_queues(MAINTENANCE_ROWS, clock.now_ms()) >= MAINTENANCE_ROWS

    try:
        async with background_steps(
            (engine.poll_step, POLL_INTERVAL_S),
            (engine.release_step, POLL_INTERVAL_S),
            (maintain_queues, MAINTENANCE_INTERVAL_S),
        ):
            yield engine
    finally:
        await wait_at_most(CLOSE_S_MAX, "pipes.close", engine.close())
