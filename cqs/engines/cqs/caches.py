"""Which cache hides messages now: Redis, or this process's memory while Redis is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from common.clock import Clock
from cqs.engines.cqs.cache import Cache, CacheAway
from cqs.engines.cqs.memory_cache import MemoryCache, Tell
from cqs.engines.cqs.redis_cache import RedisCache

AWAY_MS = 1_000
"""After a failure Redis is not asked for so long: its timeouts must not become everybody's."""

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Caches:
    def __init__(self, redis: RedisCache | None, clock: Clock, tell: Tell) -> None:
        self._redis = redis
        self._memory = MemoryCache(tell)
        self._clock = clock
        self._away_until_ms = 0
        self._away = redis is None

    async def ask(self, question: Callable[[Cache], Awaitable[T]]) -> T:
        """Ask Redis, or memory when it is away: then what Redis knew is not known, and messages may come twice."""
        if self._redis is not None and self._clock.wall_ms() >= self._away_until_ms:
            try:
                answer = await question(self._redis)
            except CacheAway as error:
                self._lost(error)
            else:
                self._regained()
                return answer
        return await question(self._memory)

    def _lost(self, error: CacheAway) -> None:
        if not self._away:
            log.warning("cache.lost", error=str(error))
        self._away = True
        self._away_until_ms = self._clock.wall_ms() + AWAY_MS

    def _regained(self) -> None:
        if self._away:
            log.info("cache.regained")
            self._away = False
            self._memory.clear()
