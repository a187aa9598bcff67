"""The engine `pipes`, on Cassandra alone: the design of cassandra-queue (seed 003), without its locks and faults.

Each pusher fills pipes of its own, of at most `PipeSize` messages, so that a push needs no lock and no read. A popper
has the lease on the pipes that it pops. docs/adr/0028-pipes.md has the decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.ids import hex_id
from cns_common.task_cancellation import cancel_and_wait, wait_at_most
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.pipes.engine import PipesEngine
from cqs.engines.pipes.names import NODE_DIGITS
from cqs.engines.pipes.rows import PipeRows

__all__ = ["PipesEngine", "open_engine"]

POLL_INTERVAL_S = 0.5
"""The longest delay with which a waiter learns of a message that another process sent."""
REST_FACTOR = 4
"""The least pause after a background step, as a multiple of its duration."""
PAUSE_S_MAX = 2.0
"""However slow Cassandra is, waiters learn of messages in time for their polls."""
MAINTENANCE_INTERVAL_S = 15.0
MAINTENANCE_ROWS = 500
CLOSE_S_MAX = 5.0
"""The time to finish pipes and give up leases; what is left ends with its lease."""

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def open_engine(cassandra: Cassandra, clock: Clock, skew: ClockSkew) -> AsyncIterator[PipesEngine]:
    """The engine and its background tasks. `skew` is that of the process."""
    node = hex_id()[:NODE_DIGITS]
    engine = PipesEngine(PipeRows(cassandra, clock), QueueGenerations(cassandra), clock, skew, node)

    async def maintain_queues() -> None:
        await engine.maintain_queues(MAINTENANCE_ROWS, clock.now_ms())

    tasks = [
        asyncio.create_task(_repeat(engine.poll_step, POLL_INTERVAL_S)),
        asyncio.create_task(_repeat(engine.release_step, POLL_INTERVAL_S)),
        asyncio.create_task(_repeat(maintain_queues, MAINTENANCE_INTERVAL_S)),
    ]
    try:
        yield engine
    finally:
        await cancel_and_wait(tasks)
        await wait_at_most(CLOSE_S_MAX, "pipes.close", engine.close())


async def _repeat(step: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """The more a step has to do, the longer is the pause after it."""
    loop, took_s = asyncio.get_running_loop(), 0.0
    while True:
        await asyncio.sleep(max(pause_s, min(REST_FACTOR * took_s, PAUSE_S_MAX)))
        begun_s = loop.time()
        try:
            await step()
        except CnsError as error:
            log.warning("queue_engine.step_failed", error=str(error))
        took_s = loop.time() - begun_s
