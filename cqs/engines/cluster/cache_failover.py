"""Who hides messages now: Redis, or the processes themselves while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import Cache, CacheAway
from cqs.engines.cluster.delivered import Held
from cqs.engines.cluster.ids import Place
from cqs.engines.cluster.no_redis.cache import Outage
from cqs.engines.cluster.redis_cache import RedisCache
from cqs.engines.cluster.rows import Rows

GRACE_MS = 2_000
"""So long nothing is given out after Redis was lost: it may be back at once, and what it hid is written down."""
RETURN_S = 0.5
RETURN_S_MAX = 5.0
"""So long nothing is given out after it is back, until all processes have written down what they hide."""
LOOK_S = 0.5
QUEUES_AT_ONCE = 16

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Caches:
    """A circuit breaker: after one failure Redis is asked by `watch` alone until it answers again."""

    def __init__(self, redis: RedisCache | None, outage: Outage, held: Held, rows: Rows, clock: Clock) -> None:
        self._redis = redis
        self._outage = outage
        self._held = held
        self._rows = rows
        self._clock = clock
        self._run = ""
        self._lost = asyncio.Event()
        self.losses = 0
        self.are_away = redis is None

    async def ask(self, question: Callable[[Cache], Awaitable[T]]) -> T:
        if self._redis is not None and not self.are_away:
            try:
                answer = await question(self._redis)
            except CacheAway as error:
                self.lost(str(error))
            else:
                if self._redis.run == self._run or not self._run:
                    self._run = self._redis.run
                    return answer
                self.lost("another server answers")
        return await question(self._outage)

    @property
    def redis(self) -> RedisCache | None:
        """None while it is away."""
        return None if self.are_away else self._redis

    @property
    def has_redis(self) -> bool:
        """Whether a Redis is configured, lost or not."""
        return self._redis is not None

    @property
    def redis_is_lost(self) -> bool:
        return self._redis is not None and self.are_away

    def hint(self, queue: str) -> None:
        """Tell other processes that there is something new in a queue that has nothing to do with the cache."""
        if self._redis is not None and not self.are_away:
            self._redis.hint(queue)

    async def deleted(self, queue: str, places: Sequence[Place], *, redis_knows: bool) -> None:
        """Their rows are gone. Redis may not know it where it was away when they were released, and is back."""
        if self.are_away:
            self._outage.deleted(queue, places)
        elif self._redis is not None and redis_knows:
            self._redis.deleted(queue, places)
        else:
            await self.ask(lambda cache: cache.forget(queue, places))

    def lost(self, why: str) -> None:
        if not self.are_away:
            log.warning("redis.lost", error=why)
            self.losses += 1
            self.are_away = True
            self._lost.set()

    # -- while it is away ---------------------------------------------------------------------------------------------

    async def watch(self, wake_all_queues: Callable[[], None]) -> None:
        """Runs as long as the engine does."""
        while self._redis is None:
            await self.tick()
            await asyncio.sleep(LOOK_S)
        while True:
            if not self.are_away:
                await self._until_lost(self._redis)
            self._lost.clear()
            await self._bridge(self._redis)
            self.are_away = False
            log.info("redis.recovered")
            with suppress(CacheAway):  # the reconciler finds what Redis is not told
                await self._tell(self._redis)
            wake_all_queues()

    async def _tell(self, redis: RedisCache) -> None:
        sent, deleted = self._outage.take_news()
        for queue, items in sent.items():
            await redis.add_missing(queue, items, self._clock.now_ms())
        for queue, places in deleted.items():
            await redis.forget(queue, places)

    async def _until_lost(self, redis: RedisCache) -> None:
        """A process that asks nothing must notice, too: others give out what it holds, unless that is written down."""
        while not self._lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), LOOK_S)
            try:
                await redis.greet()
            except CacheAway as error:
                self.lost(str(error))

    async def _bridge(self, redis: RedisCache) -> None:
        """Until Redis is back, and knows what happened meanwhile."""
        open_at_ms = self._clock.wall_ms() + GRACE_MS
        while True:
            await self._write_down_all()  # again: answers of Redis may have been under way when it was lost
            try:
                await redis.greet()
                for queue, items in (await self._outage.close()).items():
                    await redis.hold(queue, items)
                await self._wait_for_others()
                self._run = redis.run
            except CacheAway:
                if self._clock.wall_ms() >= open_at_ms:
                    await self.tick()
                await asyncio.sleep(LOOK_S)
            else:
                return

    async def tick(self) -> None:
        try:
            await self._outage.step()
        except CnsError as error:
            log.warning("redis_outage.step_failed", error=str(error))

    async def _wait_for_others(self) -> None:
        await asyncio.sleep(RETURN_S)
        with suppress(TimeoutError, CnsError):
            async with asyncio.timeout(RETURN_S_MAX):
                await self._outage.end_life()
                await self._outage.until_others_end()

    async def _write_down_all(self) -> None:
        queues = self._held.queues()
        for at in range(0, len(queues), QUEUES_AT_ONCE):
            await asyncio.gather(*[self.write_down(queue) for queue in queues[at : at + QUEUES_AT_ONCE]])

    async def write_down(self, queue: str) -> None:
        """What this process gave out of it, and what Redis may not know any more, stays hidden."""
        held = self._held.still(queue, self._clock.now_ms())
        try:
            await self._rows.hold(queue, held)
        except CnsError as error:
            log.warning("redis_outage.visibility_save_failed", queue=queue, messages=len(held), error=str(error))
        else:
            self._held.forget(queue, [item.place for item in held])

    @property
    def twice(self) -> int:
        """Deliveries whose hiding was lost, and whose messages others had got by the time they were settled."""
        return self._outage.twice + (self._redis.twice if self._redis else 0)

    async def close(self) -> None:
        """What this process hides stays hidden when it has ended."""
        if self.are_away:
            await self._outage.close()
            with suppress(CnsError):  # it ends by itself
                await self._outage.end_life()
