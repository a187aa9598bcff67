"""Replays under way: any worker takes one up under a lease, and goes on from where it was recorded to be."""

from __future__ import annotations

import asyncio

from cns.archives.replay import Replay
from cns.archives.replay_worker import ReplayWorker
from cns.stores.contract import ReplayStore
from cns_backend.stores.embedded.leases import LeaseStore
from cns_common.clock import Clock
from cns_common.ids import hex_id

TASK = "replay"
LEASE_MS = 15_000
"""A worker that dies leaves its replays for so long."""
RENEW_S = 5.0
LOOK_S = 0.5
"""How often a worker looks for replays that nobody is at."""
REST_S = 2.0
"""How long it leaves one alone that had to wait, for its end to come or for room."""


class Replayers:
    def __init__(self, replays: ReplayStore, replay_worker: ReplayWorker, leases: LeaseStore, clock: Clock) -> None:
        self._replays = replays
        self._replay_worker = replay_worker
        self._leases = leases
        self._clock = clock
        self._holder = hex_id()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._rests_until_s: dict[str, float] = {}
        self._failures: list[BaseException] = []
        self._stopping = False

    async def step(self) -> None:
        """Take up what nobody is at, and rest. What went wrong with one is this loop's failure."""
        if self._failures:
            raise self._failures.pop()
        now_s = asyncio.get_running_loop().time()
        self._rests_until_s = {one: until_s for one, until_s in self._rests_until_s.items() if until_s > now_s}
        for replay in await self._replays.active():
            if replay.id not in self._running | self._rests_until_s and await self._hold(replay):
                self._running[replay.id] = asyncio.create_task(self._run(replay), name=replay.id)
                self._running[replay.id].add_done_callback(self._ended)
        await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        """Let every replay end the page it is at; another worker goes on with it."""
        self._stopping = True
        if self._running:
            await asyncio.wait(self._running.values())

    async def _run(self, replay: Replay) -> None:
        loop = asyncio.get_running_loop()
        renew_at_s = loop.time() + RENEW_S
        try:
            while not self._stopping:
                if not await self._replay_worker.step(replay):
                    self._rests_until_s[replay.id] = loop.time() + REST_S
                    return
                if loop.time() >= renew_at_s:
                    if not await self._hold(replay):
                        return
                    renew_at_s = loop.time() + RENEW_S
        finally:
            await self._leases.give_back(TASK, replay.id, self._holder)

    def _ended(self, run: asyncio.Task[None]) -> None:
        del self._running[run.get_name()]
        error = None if run.cancelled() else run.exception()
        if error is not None:
            self._failures.append(error)

    async def _hold(self, replay: Replay) -> bool:
        return await self._leases.take(TASK, replay.id, self._holder, LEASE_MS, self._clock.now_ms())
