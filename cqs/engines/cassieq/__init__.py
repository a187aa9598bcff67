"""The engine on Cassandra alone, named `cassieq`: messages in fixed-size buckets by monotonic numbers, three pointers,
conditional writes instead of locks.

It follows CassieQ (seed 001), and mends three of its faults: a long lease holds up nobody (`hidden`), numbers are taken
for many messages at a time (`monotons`), and no answered message depends on repair (`sending`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait, wait_at_most
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassieq.engine import CassieqEngine

__all__ = ["CassieqEngine", "open_engine"]

POLL_INTERVAL_S = 1.0
"""The interval at which queues with waiters are looked at for messages of other processes."""
MAINTENANCE_INTERVAL_S = 5.0
MAINTENANCE_ROWS = 500
CLOSE_S_MAX = 5.0
"""The time for running writes and to give up leases, which end by themselves."""

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def open_engine(cassandra: Cassandra, clock: Clock, skew: ClockSkew) -> AsyncIterator[CassieqEngine]:
    """The engine and its background tasks."""
    engine = CassieqEngine(cassandra, clock, skew)

    async def maintain_queues() -> None:
        await engine.maintain_queues(MAINTENANCE_ROWS, clock.now_ms())

    tasks = [
        asyncio.create_task(_repeat(engine.poll_step, POLL_INTERVAL_S)),
        asyncio.create_task(_repeat(maintain_queues, MAINTENANCE_INTERVAL_S)),
    ]
    try:
        yield engine
    finally:
        await cancel_and_wait(tasks)
        await wait_at_most(CLOSE_S_MAX, "cassieq.close", engine.close())


async def _repeat(step: Callable[[], Awaitable[None]], pause_s: float) -> None:
    while True:
        await asyncio.sleep(pause_s)
        try:
            await step()
        except CnsError as error:
            log.warning("queue_engine.step_failed", error=str(error))
