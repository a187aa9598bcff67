"""One Redis server of a process: its cache, its epoch, and the fallback while it is lost. Without Redis there is one
server, always lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import EXIT_SETTINGS_WRONG, CnsError, StartError
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.cache_switch import FALLBACK_INTERVAL_S, CacheSwitch
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.no_redis.bucket_reader import BucketReader, Notify
from cqs.engines.cluster.no_redis.cache import FallbackCache
from cqs.engines.cluster.no_redis.claims import BucketClaims
from cqs.engines.cluster.no_redis.counts import FallbackCounts
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.unacked import UnackedDeliveries
from cqs.engines.cluster.views import open_view
from cqs.engines.waiters import WaiterRegistry

LISTEN_RETRY_S = 0.5

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheParts:
    """The parts that the caches of a process share."""

    cassandra: Cassandra
    rows: MessageRows
    clock: Clock
    node: str
    prefix: str
    waiters: WaiterRegistry
    notify: Notify


class CacheServer:
    def __init__(
        self,
        name: str,
        url: str,
        parts: CacheParts,
        placed_since: Callable[[QueueShard], int],
        waiting: Callable[[CacheFailover], list[QueueShard]],
    ) -> None:
        """`waiting` returns those shards of a cache whose queues have waiters. An empty `url`: without Redis."""
        self.name = name
        self._parts = parts
        rows, clock = parts.rows, parts.clock
        unacked = UnackedDeliveries()
        self.redis = RedisCache(url, clock, unacked, parts.prefix, placed_since) if url else None
        self._fallback = _fallback(parts, name, lambda: waiting(self.failover), permanent=self.redis is None)
        self._view = open_view(parts.cassandra, clock, parts.node, name)
        self.failover = CacheFailover(self.redis, self._fallback, unacked, rows, clock, self._view)
        self._subscribed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def reached(self) -> Mapping[str, str]:
        """The run ids that living processes reach under this name, by the process; '' for one that reaches none."""
        return self._view.state.said

    async def refuse_eviction(self) -> None:
        """Raise StartError if Redis may evict keys. Do not use this object afterwards."""
        if self.redis is None:
            return
        with contextlib.suppress(CacheUnavailable):  # the start does not need Redis
            await self.redis.ping()
        await self.redis.close()
        if complaint := self.redis.policy_complaint():
            raise StartError(complaint, EXIT_SETTINGS_WRONG)

    async def start(self) -> None:
        redis = self.redis
        if redis is None:
            with contextlib.suppress(CnsError):  # it is repeated
                await self._fallback.step()
            self._tasks = [asyncio.create_task(repeat(self._fallback.step, FALLBACK_INTERVAL_S))]
            return
        switch = CacheSwitch(
            redis,
            self._fallback,
            self.failover,
            self._view,
            self._parts.clock,
            self._parts.waiters.wake_all_queues,
        )
        self._tasks = [
            asyncio.create_task(switch.run()),
            asyncio.create_task(repeat(lambda: self._listen(redis), LISTEN_RETRY_S)),
        ]

    async def wait_until_open(self) -> None:
        """Wait until messages can be leased and other processes' hints arrive. Without Redis it returns at once."""
        if self.redis is not None:
            await self._subscribed.wait()
            await self.failover.wait_until_open()

    async def _listen(self, redis: RedisCache) -> None:
        """Wake local waiters when messages come in any process. After a gap wake all: notifications may have been
        missed."""
        try:
            async with redis.notifications.listening(self._parts.notify) as read:
                self._parts.waiters.wake_all_queues()
                self._subscribed.set()
                await read()
        except CacheUnavailable as error:
            self.failover.mark_lost(str(error))
            raise

    async def stop(self) -> None:
        """Stop the background tasks."""
        await cancel_and_wait(self._tasks)

    async def close(self) -> None:
        await self.failover.close()
        await self.disconnect()

    async def disconnect(self) -> None:
        if self.redis is not None:
            await self.redis.close()


def closed_cache(parts: CacheParts) -> tuple[CacheFailover, FallbackCache]:
    """A cache that is never open: it knows nothing, so that the rows are asked."""
    fallback = _fallback(parts, "", list, permanent=False)
    view = open_view(parts.cassandra, parts.clock, parts.node)
    return CacheFailover(None, fallback, UnackedDeliveries(), parts.rows, parts.clock, view), fallback


def _fallback(
    parts: CacheParts, name: str, waiting: Callable[[], list[QueueShard]], *, permanent: bool
) -> FallbackCache:
    rows, clock = parts.rows, parts.clock
    claims = BucketClaims(parts.cassandra, clock, f"{parts.node}.{name}")
    reader = BucketReader(rows, claims, clock, waiting, parts.notify)
    counts = FallbackCounts(rows, clock, reader.visibilities)
    return FallbackCache(reader, counts, clock, parts.notify, permanent=permanent)


async def repeat(step: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """Repeat a step for as long as the engine runs; its failure is logged."""
    while True:
        try:
            await step()
        except (CacheUnavailable, CnsError) as error:
            log.warning("queue_engine.step_failed", error=str(error))
        await asyncio.sleep(pause_s)
