"""The Redis servers of a process: those of the layout that it acts by."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import structlog

from cns_common.errors import CnsError
from cns_common.metrics.catalogue import (
    CACHE_LOOKUPS,
    QUEUE_DUPLICATE_DELIVERIES,
    REDIS_OUTAGES,
    REDIS_REACHED_BY,
    REDIS_UP,
)
from cns_common.metrics.model import Sample
from cns_common.redis.urls import FIRST_SERVER, address_of, url_at
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.servers.layout import Layout, ServerAddress
from cqs.engines.cluster.servers.layout_switch import LayoutSwitch
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.cluster.servers.server import CacheParts, CacheServer, closed_cache
from cqs.engines.cluster.views import LAYOUT, open_view

JOIN_S = 1.5
"""The time that a process waits for a server that is new to it before it uses the layout without it."""

log = structlog.get_logger(__name__)


class CacheServers:
    def __init__(self, parts: CacheParts, urls: dict[str, str]) -> None:
        """`urls` by name, of this process's settings. If there are none, it never uses Redis."""
        self._parts = parts
        self._urls = urls or {FIRST_SERVER: ""}
        named = tuple([ServerAddress(name, address_of(url)) for name, url in self._urls.items()])
        self._view = open_view(parts.cassandra, parts.clock, parts.node, LAYOUT) if urls else None
        self.router = CacheRouter(*closed_cache(parts), self._view)
        self._servers: dict[str, CacheServer] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._past_losses: dict[str, int] = {}
        self._past_duplicates = 0
        if self._view is None:
            self.router.begin(Layout.first(named))
            self._switch = None
        else:
            settings = [f"{one.name}={one.address}" for one in named]
            self._view.says = " ".join([f"{socket.gethostname()}/{os.getpid()}", *settings])
            self._switch = LayoutSwitch(
                self._view,
                self.router,
                named,
                self.follow,
                self.wait_for_servers,
                parts.rows,
                parts.clock,
                parts.waiters.wake_all_queues,
            )

    def _waiting(self, failover: CacheFailover) -> list[QueueShard]:
        shards = [shard for queue_id in self._parts.waiters.queues() for shard in self.router.shards(queue_id)]
        return [shard for shard in shards if self.router.at(shard) is failover]

    # -- following the layout -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raise StartError if a server of the settings may evict keys."""
        for name, url in self._urls.items():
            await self._make(name, url).refuse_eviction()
        if self._switch is None:
            await self._open(FIRST_SERVER, "")
            self.router.settle()
        else:
            with suppress(CnsError):  # it is repeated
                while await self._switch.step():
                    pass
            self._tasks = [asyncio.create_task(self._switch.run())]

    def _make(self, name: str, url: str) -> CacheServer:
        return CacheServer(name, url, self._parts, self.router.placed_since, self._waiting)

    async def _open(self, name: str, url: str) -> CacheServer:
        server = self._servers[name] = self._make(name, url)
        self.router.add(name, server.failover)
        await server.start()
        return server

    async def follow(self, layout: Layout) -> None:
        """Connect to the layout's servers, and disconnect from those that neither it nor the layout in use has."""
        added = [one for one in layout.servers if one.name not in self._servers]
        for one in added:
            await self._open(one.name, self._urls.get(one.name) or url_at(one.address, next(iter(self._urls.values()))))
        if added and self.router.layout.servers:
            await self.wait_for_servers()
        for name in [*self._servers]:
            if name not in layout.names and name not in self.router.layout.names:
                await self._leave(name)
        for name in self._urls.keys() - set(layout.names):
            if layout is not self.router.layout:
                log.warning("redis_layout.server_not_used", name=name, servers=layout.names)

    async def _leave(self, name: str) -> None:
        server = self._servers.pop(name)
        self.router.remove(name)
        self._past_losses[name] = self._past_losses.get(name, 0) + server.failover.losses
        self._past_duplicates += server.failover.duplicates
        await server.stop()
        await server.close()

    async def wait_until_open(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.router.wait_until_settled()
                await self.wait_for_servers(timeout_s)

    async def wait_for_servers(self, timeout_s: float = JOIN_S) -> None:
        """Wait until all servers are in use, or the timeout passes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for server in [*self._servers.values()]:
                    await server.wait_until_open()

    # -- the end ------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop the background tasks."""
        await cancel_and_wait(self._tasks)
        await self._each(CacheServer.stop)

    async def save_all_hidden(self) -> None:
        """Save the visibility of what this process hides in the rows: another site, with its own Redis, takes over."""
        await self._each(lambda server: server.failover.save_all_hidden())

    async def close(self) -> None:
        await self._each(lambda server: server.failover.close())
        await self._each(CacheServer.disconnect)
        if self._view is not None:
            await self._view.leave()

    async def _each(self, step: Callable[[CacheServer], Awaitable[object]]) -> None:
        """Run a step of all servers at once: none waits for a slow one. Raise a failure when all have ended."""
        ended = await asyncio.gather(*[step(server) for server in self._servers.values()], return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure

    def samples(self) -> list[Sample]:
        failovers = {name: server.failover for name, server in self._servers.items()}
        losses = {name: one.losses for name, one in failovers.items()}
        for name, past in self._past_losses.items():
            losses[name] = losses.get(name, 0) + past
        duplicates = sum(one.duplicates for one in failovers.values()) + self._past_duplicates
        return [
            *[REDIS_UP.sample(not one.redis_is_lost, server=name) for name, one in failovers.items() if one.has_redis],
            *self._disagreements(),
            *[REDIS_OUTAGES.sample(n, server=name) for name, n in losses.items()],
            *[
                CACHE_LOOKUPS.sample(n, server=name, result=result)
                for name, one in failovers.items()
                if one.has_redis
                for result, n in one.lookups.items()
            ],
            QUEUE_DUPLICATE_DELIVERIES.sample(duplicates),
        ]

    def _disagreements(self) -> Iterator[Sample]:
        """If the processes reach different servers under one name, so that it is lost, yield what each of them
        reaches."""
        settings = {} if self._view is None else {node: text.split() for node, text in self._view.state.said.items()}
        for name, server in self._servers.items():
            if not server.failover.redis_is_lost or len({*server.reached.values()}) < 2:
                continue
            for node, reached in server.reached.items():
                peer, *urls = settings.get(node) or [node]
                address = dict(url.split("=", 1) for url in urls).get(name, "")
                yield REDIS_REACHED_BY.sample(bool(reached), server=name, peer=peer, address=address, run=reached[:8])
