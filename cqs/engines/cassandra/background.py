"""Runs an engine's background steps, each again and again with a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait

REST_FACTOR = 4
"""The least pause after a step, as a multiple of its duration: a slow Cassandra is asked less often."""
REST_S_MAX = 2.0
"""The limit of that pause, so that waiters learn of messages within their polls."""

Step = Callable[[], Awaitable[bool | None]]
"""Returns True if there is more to do at once."""
PacedStep = tuple[Step, float]
"""With its pause in seconds."""

log = structlog.get_logger(__name__)


@asynccontextmanager
async def background_steps(*steps: PacedStep) -> AsyncIterator[None]:
    """Run each step while the block runs; the pause is shorter while there is more to do. A
    step that fails is logged and repeated."""
    tasks = [asyncio.create_task(_repeat(step, pause_s)) for step, pause_s in steps]
    try:
        yield
    finally:
        await cancel_and_wait(tasks)


async def _repeat(step: Step, pause_s: float) -> None:
    loop, took_s, has_more = asyncio.get_running_loop(), 0.0, False
    while True:
        rest_s = min(REST_FACTOR * took_s, REST_S_MAX)
        await asyncio.sleep(rest_s if has_more else max(pause_s, rest_s))
        begun_s, has_more = loop.time(), False
        try:
            has_more = bool(await step())
        except CnsError as error:
            log.warning("queue_engine.step_failed", error=str(error))
        took_s = loop.time() - begun_s
