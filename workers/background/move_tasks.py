"""Message move tasks under way: any worker takes one up under a lease, at the pace its owner asked for."""

from __future__ import annotations

import asyncio

import structlog

from cns_backend.stores.embedded.leases import LeaseStore
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.redrive.mover import MOVE_LEASE_MS, MessageMover
from cqs.redrive.task import MoveTask
from cqs.stores.contract import MoveTaskStore

TASK = "move"
LEASE_MS = 15_000
"""A worker that dies leaves its tasks for so long."""
RENEW_S = 5.0
LOOK_S = 1.0
"""How often a worker looks for tasks that nobody is at."""
BATCH = 10
BATCHES_A_SECOND = 4
"""At least so many of a task that is held to a pace, so that a cancellation is soon seen."""

log = structlog.get_logger(__name__)


class Movers:
    def __init__(self, tasks: MoveTaskStore, moving: MessageMover, leases: LeaseStore, clock: Clock) -> None:
        self._tasks = tasks
        self._moving = moving
        self._leases = leases
        self._clock = clock
        self._holder = hex_id()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._failures: list[BaseException] = []
        self._stopping = asyncio.Event()

    async def step(self) -> None:
        """Take up what nobody is at, and rest. What went wrong with one is this loop's failure."""
        if self._failures:
            raise self._failures.pop()
        for task in await self._tasks.active():
            if task.id not in self._running and await self._hold(task):
                self._running[task.id] = asyncio.create_task(self._run(task), name=task.id)
                self._running[task.id].add_done_callback(self._ended)
        await self._rest(LOOK_S)

    async def close(self) -> None:
        """Let every task end the batch it is at; another worker goes on with it."""
        self._stopping.set()
        if self._running:
            await asyncio.wait(self._running.values())

    async def _run(self, task: MoveTask) -> None:
        try:
            await self._move(await self._moving.begin(task))
        finally:
            await self._leases.give_back(TASK, task.id, self._holder)

    def _ended(self, run: asyncio.Task[None]) -> None:
        del self._running[run.get_name()]
        error = None if run.cancelled() else run.exception()
        if error is not None:
            self._failures.append(error)

    async def _move(self, task: MoveTask) -> None:
        loop = asyncio.get_running_loop()
        held_until_ms = self._clock.now_ms() + MOVE_LEASE_MS if task.takes > 1 else 0
        renew_at_s = loop.time() + RENEW_S
        batch, pause_s = pace(task.per_second)
        while task.active and not self._stopping.is_set():
            began_s = loop.time()
            if began_s >= renew_at_s:
                if not await self._hold(task):
                    return
                renew_at_s = began_s + RENEW_S
            task, taken = await self._moving.step(task, batch)
            if task.active and not taken and self._clock.now_ms() >= held_until_ms:
                task = await self._moving.end(task, "COMPLETED")
            # where none was taken: what a dead worker held comes back when its lease is over
            rest_s = pause_s if taken else max(pause_s, LOOK_S)
            await self._rest(began_s + rest_s - loop.time() if task.active else 0)
        if not task.active:
            log.info(
                "message_move_task.ended", task=task.id, source=task.source_arn, status=task.status, moved=task.moved
            )

    async def _hold(self, task: MoveTask) -> bool:
        return await self._leases.take(TASK, task.id, self._holder, LEASE_MS, self._clock.now_ms())

    async def _rest(self, seconds: float) -> None:
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                return


def pace(per_second: int) -> tuple[int, float]:
    """How many messages a batch has, and how long after the last one's begin the next may begin."""
    if not per_second:
        return BATCH, 0.0
    batch = min(BATCH, max(1, per_second // BATCHES_A_SECOND))
    return batch, batch / per_second
