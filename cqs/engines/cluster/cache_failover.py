"""Decides which cache is in use: Redis or, while it is unavailable, the processes' own memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import Cache, CacheUnavailable
from cqs.engines.cluster.ids import MessageLocation
from cqs.engines.cluster.no_redis.cache import FallbackCache
from cqs.engines.cluster.redis_cache import RedisCache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.unacked import UnackedDeliveries

GRACE_MS = 2_000
"""No messages are leased for this long after Redis was lost. It may return at once, and meanwhile all processes save
the visibility of their deliveries."""
HANDOVER_S = 0.5
HANDOVER_S_MAX = 5.0
"""After Redis returned no messages are leased for `HANDOVER_S`, then for up to `HANDOVER_S_MAX` until all processes
saved what they hide."""
POLL_INTERVAL_S = 0.5
QUEUES_AT_ONCE = 16

T = TypeVar("T")
log = structlog.get_logger(__name__)


class CacheFailover:
    """A circuit breaker: after a failure only `run` calls Redis, until it answers again."""

    def __init__(
        self,
        redis: RedisCache | None,
        fallback: FallbackCache,
        unacked: UnackedDeliveries,
        rows: MessageRows,
        clock: Clock,
    ) -> None:
        self._redis = redis
        self._fallback = fallback
        self._unacked = unacked
        self._rows = rows
        self._clock = clock
        self._run_id = ""
        self._lost = asyncio.Event()
        self.losses = 0
        self.on_fallback = redis is None

    async def ask(self, question: Callable[[Cache], Awaitable[T]]) -> T:
        if self._redis is not None and not self.on_fallback:
            try:
                answer = await question(self._redis)
            except CacheUnavailable as error:
                self.mark_lost(str(error))
            else:
                if self._redis.run_id == self._run_id or not self._run_id:
                    self._run_id = self._redis.run_id
                    return answer
                self.mark_lost("another server answers")
        return await question(self._fallback)

    @property
    def redis(self) -> RedisCache | None:
        """None while it is unavailable."""
        return None if self.on_fallback else self._redis

    @property
    def has_redis(self) -> bool:
        """Whether a Redis is configured, available or not."""
        return self._redis is not None

    @property
    def redis_is_lost(self) -> bool:
        return self._redis is not None and self.on_fallback

    def hint(self, queue_id: str) -> None:
        """Tell other processes that a FIFO queue, which the cache does not know, has changed."""
        if self._redis is not None and not self.on_fallback:
            self._redis.hint(queue_id)

    async def finish_delete(self, queue_id: str, locations: Sequence[MessageLocation], *, redis_knows: bool) -> None:
        """Report that the rows are deleted. Redis may still have the messages if it was unavailable at
        `begin_delete`."""
        if self.on_fallback:
            self._fallback.finish_delete(queue_id, locations)
        elif self._redis is not None and redis_knows:
            self._redis.finish_delete(queue_id, locations)
        else:
            await self.ask(lambda cache: cache.forget(queue_id, locations))

    def mark_lost(self, why: str) -> None:
        if not self.on_fallback:
            log.warning("redis.lost", error=why)
            self.losses += 1
            self.on_fallback = True
            self._lost.set()

    # -- switching ----------------------------------------------------------------------------------------------------

    async def run(self, wake_all_queues: Callable[[], None]) -> None:
        """Switch between Redis and the fallback, for as long as the engine runs."""
        while self._redis is None:
            await self.step_fallback()
            await asyncio.sleep(POLL_INTERVAL_S)
        while True:
            if not self.on_fallback:
                await self._until_lost(self._redis)
            self._lost.clear()
            await self._run_fallback(self._redis)
            self.on_fallback = False
            log.info("redis.recovered")
            with suppress(CacheUnavailable):  # the reconciler finds messages that are not reported
                await self._replay_changes(self._redis)
            wake_all_queues()

    async def _replay_changes(self, redis: RedisCache) -> None:
        sent, deleted = self._fallback.take_unreported()
        for queue_id, items in sent.items():
            await redis.add_missing(queue_id, items, self._clock.now_ms())
        for queue_id, locations in deleted.items():
            await redis.forget(queue_id, locations)

    async def _until_lost(self, redis: RedisCache) -> None:
        """Return once Redis is lost. Idle processes must notice, too: others may lease what they hold until they save
        its visibility."""
        while not self._lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), POLL_INTERVAL_S)
            try:
                await redis.ping()
            except CacheUnavailable as error:
                self.mark_lost(str(error))

    async def _run_fallback(self, redis: RedisCache) -> None:
        """Use the fallback until Redis is back and knows what happened meanwhile."""
        open_at_ms = self._clock.wall_ms() + GRACE_MS
        while True:
            await self._persist_all_leases()  # each time: answers may have been under way when Redis was lost
            try:
                await redis.ping()
                for queue_id, items in (await self._fallback.close()).items():
                    await redis.keep_hidden(queue_id, items)
                await self._wait_for_others()
                self._run_id = redis.run_id
            except CacheUnavailable:
                if self._clock.wall_ms() >= open_at_ms:
                    await self.step_fallback()
                await asyncio.sleep(POLL_INTERVAL_S)
            else:
                return

    async def step_fallback(self) -> None:
        try:
            await self._fallback.step()
        except CnsError as error:
            log.warning("redis_outage.step_failed", error=str(error))

    async def _wait_for_others(self) -> None:
        await asyncio.sleep(HANDOVER_S)
        with suppress(TimeoutError, CnsError):
            async with asyncio.timeout(HANDOVER_S_MAX):
                await self._fallback.end_heartbeat()
                await self._fallback.wait_until_others_ended()

    async def _persist_all_leases(self) -> None:
        queues = self._unacked.queues()
        for at in range(0, len(queues), QUEUES_AT_ONCE):
            await asyncio.gather(*[self.persist_leases(queue_id) for queue_id in queues[at : at + QUEUES_AT_ONCE]])

    async def persist_leases(self, queue_id: str) -> None:
        """Save the visibility of this process's deliveries from the queue in their rows: Redis may have lost it."""
        unacked = self._unacked.still_hidden(queue_id, self._clock.now_ms())
        try:
            await self._rows.keep_hidden(queue_id, unacked)
        except CnsError as error:
            log.warning("redis_outage.visibility_save_failed", queue=queue_id, messages=len(unacked), error=str(error))
        else:
            self._unacked.forget(queue_id, [item.location for item in unacked])

    @property
    def duplicates(self) -> int:
        """Deliveries whose visibility was lost and whose messages were delivered again before they were settled."""
        return self._fallback.duplicates + (self._redis.duplicates if self._redis else 0)

    async def close(self) -> None:
        """Save what this process hides, so that it stays hidden."""
        if self.on_fallback:
            await self._fallback.close()
            with suppress(CnsError):  # it expires by itself
                await self._fallback.end_heartbeat()
