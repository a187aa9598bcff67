"""Resizes a worker's delivery pools: to its settings, until an operator sets other sizes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from cns_backend.stores.contract import BY_SETTING, PoolSize, PoolSizeStore, PoolState, wanted_size
from cns_common.clock import Clock
from cns_workers.delivery.pool.pool import DeliveryPool

POLL_INTERVAL_S = 1.0

log = structlog.get_logger(__name__)


class PoolResizer:
    def __init__(self, worker: str, pools: Mapping[str, DeliveryPool], sizes: PoolSizeStore, clock: Clock) -> None:
        """`worker` is the name of this process."""
        self._worker = worker
        self._pools = pools
        self._sizes = sizes
        self._clock = clock
        self._settings = {
            name: PoolSize(pool=name, threads=pool.size, set_by=BY_SETTING, set_at_ms=0) for name, pool in pools.items()
        }
        self._stored = dict(self._settings)
        self._wanted = dict(self._settings)
        self._unsaved: dict[str, PoolSize] = {}
        self._started = False

    async def step(self) -> None:
        await self.apply_stored()
        await asyncio.sleep(POLL_INTERVAL_S)

    async def apply_stored(self) -> None:
        """Apply the sizes in the store, after those that could not be stored before."""
        if not self._started:
            await self._start()
        for name, size in list(self._unsaved.items()):
            await self._sizes.put(size)
            if self._unsaved[name] is size:
                del self._unsaved[name]
        sizes = await self._sizes.all()
        for name, setting in self._settings.items():
            stored = wanted_size(sizes, name, self._worker) or setting
            if stored != self._stored[name]:  # else a size set in this process since remains
                self._stored[name] = stored
                self._apply(stored)

    def resize(self, pool: str, threads: int, set_by: str) -> None:
        """Resize at once, even if the store cannot be reached, for the life of this process."""
        now_ms = self._clock.now_ms()
        size = PoolSize(pool=pool, worker=self._worker, threads=threads, set_by=set_by, set_at_ms=now_ms)
        self._apply(size)
        self._unsaved[pool] = size

    def states(self) -> tuple[PoolState, ...]:
        return tuple([self._state(pool) for pool in self._pools.values()])

    async def _start(self) -> None:
        """Remove the sizes of an earlier process with the same name."""
        for name in self._pools:
            await self._sizes.remove(name, self._worker)
        self._started = True

    def _apply(self, size: PoolSize) -> None:
        pool = self._pools[size.pool]
        self._wanted[size.pool] = size
        if pool.size != size.threads:
            log.info("pool.resized", pool=pool.name, before=pool.size, threads=size.threads, set_by=size.set_by)
            pool.resize(size.threads)

    def _state(self, pool: DeliveryPool) -> PoolState:
        wanted = self._wanted[pool.name]
        return PoolState(
            pool=pool.name,
            threads=pool.size,
            draining=pool.draining,
            blocked=pool.blocked,
            in_flight=pool.in_flight,
            waiting=pool.waiting,
            wanted=wanted.threads,
            set_by=wanted.set_by,
            set_at_ms=wanted.set_at_ms,
        )
