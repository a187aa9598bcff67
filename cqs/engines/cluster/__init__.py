"""The engine on Cassandra and Redis: rows in time buckets are the truth, a sorted set hides and shows them.

After the original CQS (seed 000), without its faults: the cache is never trusted to be complete, and losing it loses
nothing. FIFO queues have a log of their own instead (`fifo`).
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
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import CacheAway
from cqs.engines.cluster.cache_failover import Caches
from cqs.engines.cluster.delivered import Held
from cqs.engines.cluster.engine import ClusterEngine
from cqs.engines.cluster.fifo.engine import FifoQueues
from cqs.engines.cluster.ids import NODE_DIGITS
from cqs.engines.cluster.known_queues import Lines
from cqs.engines.cluster.no_redis.bucket_reader import Looks
from cqs.engines.cluster.no_redis.cache import Outage
from cqs.engines.cluster.no_redis.claims import Claims
from cqs.engines.cluster.no_redis.counts import Surveys
from cqs.engines.cluster.reconciler import Reconciler
from cqs.engines.cluster.redis_cache import PREFIX, RedisCache
from cqs.engines.cluster.rows import Rows
from cqs.engines.cluster.standard import StandardQueues
from cqs.engines.waiters import WaiterRegistry

__all__ = ["ClusterEngine", "open_engine"]

RECONCILE_EVERY_S = 2.0
WATCH_AGAIN_S = 0.5
LISTEN_AGAIN_S = 0.5
FIFO_LOOK_S = 1.0
"""Between two looks at FIFO queues that somebody waits for, where nothing hints at what others do."""
FIFO_LOOK_HINTED_S = 5.0
TIDY_EVERY_S = 15.0
TIDY_ROWS = 500
LISTEN_S_MAX = 3.0
"""How long the start waits for Redis before it goes on without."""

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def open_engine(
    cassandra: Cassandra, redis_url: str, clock: Clock, prefix: str = PREFIX
) -> AsyncIterator[ClusterEngine]:
    """`redis_url` '' is for ever without Redis. Nothing is lost when it comes and goes."""
    waiters = WaiterRegistry(clock)

    def tell(queue: str, visible: int, due_ms: int | None) -> None:
        fifo.hear(queue)
        if queue in waiters:
            waiters.wake(queue, visible)
        if due_ms is not None and queue in waiters:
            waiters.wake_at(queue, due_ms)

    node, held = hex_id()[:NODE_DIGITS], Held()
    redis = RedisCache(redis_url, clock, held, prefix) if redis_url else None
    rows = Rows(cassandra, clock, node)
    looks = Looks(rows, Claims(cassandra, clock, node), clock, waiters.queues, tell)
    outage = Outage(looks, Surveys(rows, clock, looks.shelves), clock, tell, for_ever=redis is None)
    caches = Caches(redis, outage, held, rows, clock)
    lines = Lines(rows, caches, clock)
    reconciler = Reconciler(rows, caches, lines, clock)
    fifo = FifoQueues(cassandra, rows, lines, clock, caches.hint)
    standard = StandardQueues(rows, caches, lines, waiters)
    engine = ClusterEngine(rows, caches, lines, standard, fifo, reconciler, clock)

    async def tidy() -> None:
        await engine.tidy(TIDY_ROWS, clock.now_ms())

    if redis is None:
        await caches.tick()
    tasks = [
        asyncio.create_task(_again(lambda: caches.watch(waiters.wake_all_queues), WATCH_AGAIN_S)),
        asyncio.create_task(_again(reconciler.step, RECONCILE_EVERY_S)),
        asyncio.create_task(_again(fifo.look_at_all, FIFO_LOOK_HINTED_S if redis_url else FIFO_LOOK_S)),
        asyncio.create_task(_again(tidy, TIDY_EVERY_S)),
    ]
    if redis is not None:
        heard = asyncio.Event()
        tasks.append(asyncio.create_task(_again(lambda: _listen(redis, caches, tell, waiters, heard), LISTEN_AGAIN_S)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_S_MAX):
                await heard.wait()
    try:
        yield engine
    finally:
        await cancel_and_wait(tasks)
        await fifo.close()
        await lines.close()
        await caches.close()
        if redis is not None:
            await redis.close()


async def _again(step: Callable[[], Awaitable[None]], pause_s: float) -> None:
    while True:
        try:
            await step()
        except (CacheAway, CnsError) as error:
            log.warning("queue_engine.step_failed", error=str(error))
        await asyncio.sleep(pause_s)


async def _listen(
    redis: RedisCache,
    caches: Caches,
    tell: Callable[[str, int, int | None], None],
    waiters: WaiterRegistry,
    heard: asyncio.Event,
) -> None:
    """Wake who waits here for what came anywhere. After a gap all are woken: what came meanwhile is not known."""
    try:
        async with redis.listening(tell) as read:
            waiters.wake_all_queues()
            heard.set()
            await read()
    except CacheAway as error:
        caches.lost(str(error))
        raise
