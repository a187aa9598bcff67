"""Moves a process from one layout to the next. The layout is a `View`, whose decision is its text.

A process that sees a new layout leases no more messages of the shards that move, and saves the visibility of those that
it hides; then it acts by the layout. Once all living processes do, the shards are filled and used on their new servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from cns_common.clock import Clock
from cns_common.cluster.view import View, ViewState
from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.cache_switch import SAVE_MS_MAX, SWITCH_INTERVAL_S, WATCH_INTERVAL_S
from cqs.engines.cluster.ids import QueueShard, queue_of
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.servers.layout import Layout, ServerAddress
from cqs.engines.cluster.servers.router import CacheRouter

log = structlog.get_logger(__name__)


class LayoutSwitch:
    def __init__(
        self,
        view: View,
        router: CacheRouter,
        own_servers: tuple[ServerAddress, ...],
        follow_servers: Callable[[Layout], Awaitable[None]],
        wait_until_open: Callable[[], Awaitable[None]],
        rows: MessageRows,
        clock: Clock,
        wake_all_queues: Callable[[], None],
    ) -> None:
        """`own_servers` are those of this process's settings. `follow_servers` connects to the servers of a layout, and
        disconnects from those that neither it nor the layout in use has. `wait_until_open` waits for these servers,
        some time."""
        self._view = view
        self._router = router
        self._own_servers = own_servers
        self._follow_servers = follow_servers
        self._wait_until_open = wait_until_open
        self._rows = rows
        self._clock = clock
        self._wake_all_queues = wake_all_queues
        self._is_first_step = True
        self._adopts_own = False

    async def run(self) -> None:
        """Step for as long as the engine runs."""
        renewing = asyncio.create_task(self._view.keep_renewed())
        try:
            while True:
                try:
                    while await self.step():
                        pass
                except CnsError as error:
                    log.warning("redis_layout.step_failed", error=str(error))
                await self._pause()
        finally:
            await cancel_and_wait([renewing])

    async def _pause(self) -> None:
        if not self._router.is_settled:
            await asyncio.sleep(SWITCH_INTERVAL_S)
            return
        waiting = asyncio.create_task(self._view.changed.wait())
        await asyncio.wait([waiting], timeout=WATCH_INTERVAL_S)
        await cancel_and_wait([waiting])

    async def step(self) -> bool:
        """Take the next step of the change. Returns whether there may be more to do."""
        if not self._router.is_settled:
            await self._view.renew()
        state = self._view.state
        if self._is_first_step:
            self._adopts_own, self._is_first_step = not state.others, False
        if not state.epoch:
            await self._view.propose(Layout.first(self._own_servers).write())
            return (await self._view.renew()).epoch > 0
        if state.epoch != self._view.epoch:
            await self._enter(state)
            return True
        if not self._router.is_settled and state.acted_on_by_all:
            self._router.settle()
            await self._follow_servers(self._router.layout)
            log.info("redis_layout.changed", epoch=state.epoch, servers=self._router.layout.names)
            self._wake_all_queues()
            if self._adopts_own:
                self._adopts_own = False
                return await self._propose_own(state)
        if not self._router.is_settled:
            return False
        with suppress(CacheUnavailable):  # the reconciler finds messages that are not reported
            await self._router.replay_changes(self._clock.now_ms())
        return await self._propose_shards(state)

    async def _propose_shards(self, state: ViewState) -> bool:
        """Propose the numbers of shards that queues' attributes say."""
        wanted = self._router.shard_counts.take_wanted()
        if not wanted:
            return False
        if not await self._view.propose(self._router.layout.with_shards(state.epoch + 1, wanted).write()):
            self._router.shard_counts.put_back(wanted)
        return (await self._view.renew()).epoch != state.epoch

    async def _save_from(self, failover: CacheFailover, redis: RedisCache) -> bool:
        """Save the visibility of messages in Redis: for processes that have ended, and for messages that this one does
        not remember. One process does so for each shard; the others wait, as it does not act by the new layout
        before."""
        try:
            for name in await redis.filled():
                for shard in self._router.layout.shards(queue_of(name)):
                    if shard.name == name and self._router.at(shard) is not failover:
                        await self._save_shard(redis, shard)
        except CacheUnavailable as error:  # each process saves what it remembers
            log.warning("redis_layout.read_failed", error=str(error))
        except CnsError as error:
            log.warning("redis_layout.save_failed", error=str(error))
            return False
        return True

    async def _save_shard(self, redis: RedisCache, shard: QueueShard) -> None:
        if not await redis.take_task(f"{self._view.state.epoch}:{shard.name}", self._view.process):
            return
        behind = 0
        while page := await redis.held(shard, behind):
            await self._rows.keep_hidden(shard.queue_id, page)
            behind += len(page)

    async def _propose_own(self, state: ViewState) -> bool:
        """Propose the servers of this process's settings, if it is the first one. The layout begins with the servers
        that were used last, since these know what is in flight."""
        layout = self._router.layout
        if layout.servers == self._own_servers:
            return False
        await self._wait_until_open()
        await self._view.propose(layout.with_servers(state.epoch + 1, self._own_servers).write())
        return (await self._view.renew()).epoch != state.epoch

    async def _enter(self, state: ViewState) -> None:
        """Stop leasing messages of the shards that move."""
        layout = Layout.read(state.epoch, state.decision)
        in_time = self._view.is_certain
        await self._follow_servers(layout)
        until_ms = self._clock.monotonic_ms() + SAVE_MS_MAX
        self._router.begin(layout)
        while not await self._save_moving(in_time=in_time):
            if self._clock.monotonic_ms() >= until_ms:
                await self._save_moving(in_time=False)
                break
            await asyncio.sleep(SWITCH_INTERVAL_S)
        self._view.act_by(state.epoch)
        await self._view.renew()

    async def _save_moving(self, *, in_time: bool) -> bool:
        """Save the visibility of hidden messages of the shards that move. Returns whether that worked."""
        saved = True
        for failover in self._router.failovers():
            if failover.redis is not None:
                saved = await self._save_from(failover, failover.redis) and saved
            for shard in failover.held():
                if self._router.at(shard) is not failover:
                    if not in_time:
                        failover.mark_possibly_repeated(shard)
                    saved = await failover.leave(shard) and saved
        return saved
