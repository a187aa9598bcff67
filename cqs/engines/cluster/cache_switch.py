"""Moves a process from one epoch of its server's view (`views`) to the next: watches Redis, proposes epochs, saves the
hidden messages of an epoch that ends, and opens the cache of the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from cns_common.clock import Clock
from cns_common.cluster.view import View, ViewState
from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.no_redis.cache import FallbackCache
from cqs.engines.cluster.redis.cache import RedisCache

WATCH_INTERVAL_S = 1.0
FALLBACK_INTERVAL_S = 0.5
SWITCH_INTERVAL_S = 0.1
"""The pauses between two steps: while Redis is in use, while the fallback is, and while no cache is open."""
JOIN_MS = 3_000
"""How long a starting process tries to reach Redis before it proposes that all processes do without it."""
SAVE_MS_MAX = 10_000
"""The longest time that a process tries to save its hidden messages; the others wait for it."""
REGISTER_MS_MAX = 2_000
"""After this time a process that began an epoch has registered it in Redis, or it died before."""
UNSTEADY_MS = 60_000
RETURN_PAUSE_MS = 1_000
RETURN_PAUSE_MS_MAX = 30_000
"""A process that twice within `UNSTEADY_MS` made all others do without Redis waits before it reports that it reaches
Redis again: each change fills all queues again."""

log = structlog.get_logger(__name__)


class ReturnPause:
    """The pause before a process that lost Redis repeatedly reports that it reaches it again."""

    def __init__(self) -> None:
        self._lost_ms: int | None = None
        self._pause_ms = 0
        self._until_ms = 0

    def note_loss(self, now_ms: int) -> None:
        again = self._lost_ms is not None and now_ms - self._lost_ms < UNSTEADY_MS + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms or RETURN_PAUSE_MS, RETURN_PAUSE_MS_MAX) if again else 0
        self._lost_ms, self._until_ms = now_ms, now_ms + self._pause_ms

    def is_over(self, now_ms: int) -> bool:
        return now_ms >= self._until_ms


class CacheSwitch:
    def __init__(
        self,
        redis: RedisCache,
        fallback: FallbackCache,
        failover: CacheFailover,
        view: View,
        clock: Clock,
        wake_all_queues: Callable[[], None],
    ) -> None:
        self._redis = redis
        self._fallback = fallback
        self._failover = failover
        self._view = view
        self._clock = clock
        self._wake_all_queues = wake_all_queues
        self._began_ms = clock.monotonic_ms()
        self._unregistered_ms = 0
        self._return_pause = ReturnPause()

    async def run(self) -> None:
        """Step for as long as the engine runs."""
        renewing = asyncio.create_task(self._view.keep_renewed())
        try:
            while True:
                try:
                    while await self.step():
                        pass
                except (CnsError, CacheUnavailable) as error:
                    log.warning("cache_switch.step_failed", error=str(error))
                await self._pause()
        finally:
            await cancel_and_wait([renewing])

    async def _pause(self) -> None:
        """Wait until the next step is due, Redis is lost, or the epoch changes."""
        pause_s = SWITCH_INTERVAL_S
        if self._failover.is_open:
            pause_s = FALLBACK_INTERVAL_S if self._failover.on_fallback else WATCH_INTERVAL_S
        events = [asyncio.create_task(event.wait()) for event in (self._failover.lost, self._view.changed)]
        try:
            if self._failover.is_open:
                await asyncio.wait(events, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(pause_s)  # both events may stay set meanwhile
        finally:
            await cancel_and_wait(events)

    async def step(self) -> bool:
        """Take the next step of the change. Returns whether there may be more to do."""
        self._failover.lost.clear()
        reached = await self._reach()
        state = self._view.state
        if not state.decision and not self._return_pause.is_over(self._clock.monotonic_ms()):
            reached = ""
        if not self._failover.is_open or reached != self._view.says:
            self._view.says = reached
            state = await self._view.renew()
        if state.epoch != self._view.epoch:
            await self._enter(state)
            return True
        wanted = self._wanted(state, reached)
        if wanted is not None:
            await self._propose(wanted)
            return (await self._view.renew()).epoch != state.epoch
        if not self._failover.is_open and state.epoch and state.acted_on_by_all:
            await self._open(state)
        elif self._failover.is_open and self._failover.on_fallback:
            await self._fallback.step()
        return False

    async def _reach(self) -> str:
        """The server that answers; '' for none."""
        try:
            reached = await self._redis.ping()
            if self._failover.redis is not None and not await self._redis.has_content(self._redis.epoch):
                self._redis.lost_epoch = self._redis.epoch
                self._failover.mark_lost("Redis has lost content")
            return reached
        except CacheUnavailable as error:
            self._failover.mark_lost(str(error))
            return ""

    async def _enter(self, state: ViewState) -> None:
        """End the epoch by which this process acted."""
        in_time = self._view.is_certain
        until_ms = self._clock.monotonic_ms() + SAVE_MS_MAX
        self._failover.shut()
        if not in_time:
            self._failover.mark_all_possibly_repeated()
        while not await self._failover.save_all_hidden():
            if self._clock.monotonic_ms() >= until_ms:
                self._failover.mark_all_possibly_repeated()
                break
            await asyncio.sleep(SWITCH_INTERVAL_S)
        self._unregistered_ms = 0
        self._view.act_by(state.epoch)
        await self._view.renew()

    def _wanted(self, state: ViewState, reached: str) -> str | None:
        """The server to use in a new epoch, '' for none; None to keep the present epoch."""
        if not reached and not self._failover.losses and self._clock.monotonic_ms() - self._began_ms < JOIN_MS:
            return None
        if not state.epoch:
            return reached
        if reached and {*state.said.values()} == {reached}:
            stays = reached == state.decision and self._redis.lost_epoch != state.epoch
            return None if stays else reached
        if not state.decision:
            return None
        if reached == state.decision:
            return reached if self._redis.lost_epoch == state.epoch else None
        # Another server has taken over, unless this process never reached the one that the others use.
        return reached if self._redis.epoch == state.epoch else ""

    async def _propose(self, server: str) -> None:
        before = self._view.state.epoch
        epoch = await self._view.propose(server, self._redis.newest_epoch)
        if epoch:
            log.info("cache_epoch.started", name=self._view.name, epoch=epoch, server=server)
        if epoch and not server:
            self._return_pause.note_loss(self._clock.monotonic_ms())
        elif epoch:
            await self._redis.register(epoch, before)

    async def _open(self, state: ViewState) -> None:
        if not state.decision:
            self._fallback.trust(state.epoch)
            await self._fallback.step()
            self._failover.open(redis=False)
        elif await self._redis.has_content(state.epoch):
            self._redis.trust(state.epoch, state.decision)
            self._failover.open(redis=True)
            with suppress(CacheUnavailable):  # the reconciler finds messages that are not reported
                await self._failover.replay_changes(self._redis)
        else:
            self._unregistered_ms = self._unregistered_ms or self._clock.monotonic_ms()
            if self._clock.monotonic_ms() - self._unregistered_ms > REGISTER_MS_MAX:
                self._redis.lost_epoch = state.epoch
            return
        self._wake_all_queues()
