"""Reads and live changes of the list of Redis servers, for operators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.cluster.view import View
from cns_common.ids import hex_id
from cqs.engines.cluster.ids import NODE_DIGITS
from cqs.engines.cluster.servers.layout import Layout, ServerAddress
from cqs.engines.cluster.views import LAYOUT, open_view

PROPOSALS_MAX = 10
FOLLOW_S_MAX = 30.0
POLL_INTERVAL_S = 0.2

ServerChange = Callable[[tuple[ServerAddress, ...]], tuple[ServerAddress, ...]]
"""Makes the new list of servers from the present one. Raises ValueError if that is not possible."""


class ServerState(NamedTuple):
    server: ServerAddress
    in_use: bool
    """Whether the processes use it."""
    epoch: int
    """Its current epoch (`View`)."""


class RedisServers:
    def __init__(self, cassandra: Cassandra, clock: Clock) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._view = self._view_of(LAYOUT)

    def _view_of(self, name: str) -> View:
        return open_view(self._cassandra, self._clock, hex_id()[:NODE_DIGITS], name)

    async def states(self) -> list[ServerState]:
        """The servers of the processes that run now or ran last."""
        state = await self._view.read()
        layout = Layout.read(state.epoch, state.decision)
        states = [await self._view_of(one.name).read() for one in layout.servers]
        return [
            ServerState(one, bool(known.decision), known.epoch)
            for one, known in zip(layout.servers, states, strict=True)
        ]

    async def change(self, change: ServerChange) -> bool:
        """Change the list, and wait until all running processes act by it. Returns whether they did in time. Raises
        ValueError if there is no list yet, or the change is not possible."""
        for _ in range(PROPOSALS_MAX):
            state = await self._view.read()
            if not state.epoch:
                raise ValueError("no process with CNS_REDIS has started yet: start one")
            layout = Layout.read(state.epoch, state.decision)
            after = layout.with_servers(state.epoch + 1, change(layout.servers))
            epoch = await self._view.propose(after.write())
            if epoch:
                return await self._followed(epoch)
        raise ValueError("others change the list at the same time: try again")

    async def _followed(self, epoch: int) -> bool:
        """Whether all living processes act by this epoch or a later one."""
        for _ in range(round(FOLLOW_S_MAX / POLL_INTERVAL_S)):
            state = await self._view.read()
            if state.epoch >= epoch and state.acted_on_by_all:
                return True
            await asyncio.sleep(POLL_INTERVAL_S)
        return False


def added(name: str, address: str) -> ServerChange:
    def add(servers: tuple[ServerAddress, ...]) -> tuple[ServerAddress, ...]:
        if name in [one.name for one in servers]:
            raise ValueError(f"there is a server {name} already")
        return (*servers, ServerAddress(name, address))

    return add


def removed(name: str) -> ServerChange:
    def remove(servers: tuple[ServerAddress, ...]) -> tuple[ServerAddress, ...]:
        left = tuple([one for one in servers if one.name != name])
        if len(left) == len(servers):
            raise ValueError(f"there is no server {name}")
        if not left:
            raise ValueError(
                "one server must stay: to do without Redis, stop all processes and start them without CNS_REDIS"
            )
        return left

    return remove
