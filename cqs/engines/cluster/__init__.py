"""The engine on Cassandra and Redis, named `cqs`. Rows in time buckets are the truth; a sorted set in Redis says which
messages are visible.

It follows the original CQS (seed 000), except that the cache need not be complete: losing it loses no message. FIFO
queues have a log instead (`fifo`).
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
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.engine import ClusterEngine
from cqs.engines.cluster.fifo.engine import FifoQueues
from cqs.engines.cluster.ids import NODE_DIGITS
from cqs.engines.cluster.known_queues import KnownQueues
from cqs.engines.cluster.no_redis.bucket_reader import BucketReader
from cqs.engines.cluster.no_redis.cache import FallbackCache
from cqs.engines.cluster.no_redis.claims import BucketClaims
from cqs.engines.cluster.no_redis.counts import FallbackCounts
from cqs.engines.cluster.reconciler import Reconciler
from cqs.engines.cluster.redis_cache import PREFIX, RedisCache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.standard import StandardQueues
from cqs.engines.cluster.unacked import UnackedDeliveries
from cqs.engines.waiters import WaiterRegistry

__all__ = ["ClusterEngine", "open_engine"]

RECONCILE_INTERVAL_S = 2.0
FAILOVER_RETRY_S = 0.5
LISTEN_RETRY_S = 0.5
FIFO_POLL_INTERVAL_S = 1.0
"""The poll interval of FIFO queues with waiters, if there is no Redis for hints from other processes."""
FIFO_POLL_INTERVAL_HINTED_S = 5.0
MAINTENANCE_INTERVAL_S = 15.0
MAINTENANCE_ROWS = 500
LISTEN_S_MAX = 3.0
"""How long the start waits for Redis before it continues without it."""

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def open_engine(
    cassandra: Cassandra, redis_url: str, clock: Clock, prefix: str = PREFIX
) -> AsyncIterator[ClusterEngine]:
    """The engine and its background tasks. Without a `redis_url` it never uses Redis."""
    waiters = WaiterRegistry(clock)

    def notify(queue_id: str, visible: int, due_ms: int | None) -> None:
        fifo.on_hint(queue_id)
        if queue_id in waiters:
            waiters.wake(queue_id, visible)
        if due_ms is not None and queue_id in waiters:
            waiters.wake_at(queue_id, due_ms)

    node, unacked = hex_id()[:NODE_DIGITS], UnackedDeliveries()
    redis = RedisCache(redis_url, clock, unacked, prefix) if redis_url else None
    rows = MessageRows(cassandra, clock, node)
    reader = BucketReader(rows, BucketClaims(cassandra, clock, node), clock, waiters.queues, notify)
    fallback = FallbackCache(
        reader, FallbackCounts(rows, clock, reader.visibilities), clock, notify, permanent=redis is None
    )
    failover = CacheFailover(redis, fallback, unacked, rows, clock)
    known_queues = KnownQueues(rows, failover, clock)
    reconciler = Reconciler(rows, failover, known_queues, clock)
    fifo = FifoQueues(cassandra, rows, known_queues, clock, failover.hint)
    standard = StandardQueues(rows, failover, known_queues, waiters)
    engine = ClusterEngine(rows, failover, known_queues, standard, fifo, reconciler, clock)

    async def maintain_queues() -> None:
        await engine.maintain_queues(MAINTENANCE_ROWS, clock.now_ms())

    if redis is None:
        await failover.step_fallback()
    tasks = [
        asyncio.create_task(_repeat(lambda: failover.run(waiters.wake_all_queues), FAILOVER_RETRY_S)),
        asyncio.create_task(_repeat(reconciler.step, RECONCILE_INTERVAL_S)),
        asyncio.create_task(_repeat(fifo.poll_all, FIFO_POLL_INTERVAL_HINTED_S if redis_url else FIFO_POLL_INTERVAL_S)),
        asyncio.create_task(_repeat(maintain_queues, MAINTENANCE_INTERVAL_S)),
    ]
    if redis is not None:
        subscribed = asyncio.Event()
        tasks.append(
            asyncio.create_task(_repeat(lambda: _listen(redis, failover, notify, waiters, subscribed), LISTEN_RETRY_S))
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_S_MAX):
                await subscribed.wait()
    try:
        yield engine
    finally:
        await cancel_and_wait(tasks)
        await fifo.close()
        await known_queues.close()
        await failover.close()
        if redis is not None:
            await redis.close()


async def _repeat(step: Callable[[], Awaitable[None]], pause_s: float) -> None:
    while True:
        try:
            await step()
        except (CacheUnavailable, CnsError) as error:
            log.warning("queue_engine.step_failed", error=str(error))
        await asyncio.sleep(pause_s)


async def _listen(
    redis: RedisCache,
    failover: CacheFailover,
    notify: Callable[[str, int, int | None], None],
    waiters: WaiterRegistry,
    subscribed: asyncio.Event,
) -> None:
    """Wake local waiters when messages come in any process. After a gap wake all: notifications may have been
    missed."""
    try:
        async with redis.listening(notify) as read:
            waiters.wake_all_queues()
            subscribed.set()
            await read()
    except CacheUnavailable as error:
        failover.mark_lost(str(error))
        raise
