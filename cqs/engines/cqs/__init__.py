"""The engine on Cassandra and Redis: rows in time buckets are the truth, a sorted set hides and shows them.

After the original CQS (seed 000), without its faults: the cache is never trusted to be complete, and losing it loses
nothing. Standard queues only, so far.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import structlog

from common.cassandra import Cassandra
from common.clock import Clock
from common.errors import CnsError
from common.ids import hex_id
from common.tasks import end
from cqs.engines.cqs.cache import DROPPED, Cache, CacheAway
from cqs.engines.cqs.caches import Caches
from cqs.engines.cqs.engine import CqsEngine
from cqs.engines.cqs.lines import Line, Lines
from cqs.engines.cqs.places import NODE_DIGITS
from cqs.engines.cqs.redis_cache import PREFIX, RedisCache
from cqs.engines.cqs.rows import Rows
from cqs.engines.cqs.walks import Watch, reconcile
from cqs.engines.waiting import Waiters

__all__ = ["CqsEngine", "open_engine"]

RECONCILE_EVERY_S = 2.0
USED_MS = 60_000
"""Queues that this process used so lately are compared with the cache."""
RECONCILED_MAX = 200
LISTEN_AGAIN_S = 0.5
LISTEN_S_MAX = 3.0
"""How long the start waits for Redis before it goes on without."""

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def open_engine(
    cassandra: Cassandra, redis_url: str, clock: Clock, prefix: str = PREFIX
) -> AsyncIterator[CqsEngine]:
    """`redis_url` '' is for ever without Redis. Nothing is lost when it comes and goes."""
    waiters = Waiters(clock)

    def tell(queue: str, visible: int, due_ms: int | None) -> None:
        if queue in waiters:
            waiters.wake(queue, visible)
        if due_ms is not None and queue in waiters:
            waiters.wake_at(queue, due_ms)

    redis = RedisCache(redis_url, clock, prefix) if redis_url else None
    rows = Rows(cassandra, clock, hex_id()[:NODE_DIGITS])
    caches = Caches(redis, clock, tell)
    lines = Lines(rows, caches, clock)
    engine = CqsEngine(rows, caches, lines, waiters, clock)
    tasks = [asyncio.create_task(_again(lambda: _reconcile(rows, caches, lines, clock), RECONCILE_EVERY_S))]
    if redis is not None:
        heard = asyncio.Event()
        tasks.append(asyncio.create_task(_again(lambda: _listen(redis, tell, waiters, heard), LISTEN_AGAIN_S)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_S_MAX):
                await heard.wait()
    try:
        yield engine
    finally:
        await end(tasks)
        await lines.close()
        if redis is not None:
            await redis.close()


async def _again(step: Callable[[], Awaitable[None]], pause_s: float) -> None:
    while True:
        try:
            await step()
        except (CacheAway, CnsError) as error:
            log.warning("engine.step_failed", error=str(error))
        await asyncio.sleep(pause_s)


async def _listen(
    redis: RedisCache, tell: Callable[[str, int, int | None], None], waiters: Waiters, heard: asyncio.Event
) -> None:
    """Wake who waits here for what came anywhere. After a gap all are woken: what came meanwhile is not known."""
    async with redis.listening(tell) as read:
        waiters.wake_everybody()
        heard.set()
        await read()


async def _reconcile(rows: Rows, caches: Caches, lines: Lines, clock: Clock) -> None:
    lately = [line for line in lines if line.generation != DROPPED and clock.wall_ms() - line.used_ms < USED_MS]
    for line in lately[:RECONCILED_MAX]:
        added = await caches.ask(partial(_compare, rows, line, clock.now_ms()))
        if added:
            log.info("cache.repaired", queue=line.q.id, messages=added)


async def _compare(rows: Rows, line: Line, now_ms: int, cache: Cache) -> int:
    if line.watch.generation != line.generation:
        line.watch = Watch(line.generation)
    return await reconcile(rows, cache, line.q.id, line.watch, now_ms)
