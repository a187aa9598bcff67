"""Message move tasks, at the rates that their owners asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from cns_common.clock import Clock
from cns_workers.background.leased_tasks import TaskKind, TaskRun
from cqs.redrive.mover import MOVE_LEASE_MS, MessageMover
from cqs.redrive.task import MoveTask
from cqs.stores.contract import MoveTaskStore

POLL_INTERVAL_S = 1.0
BATCH = 10
BATCHES_PER_S_MIN = 4
"""Batches of a task with a rate are small enough that it soon notices a cancellation."""

log = structlog.get_logger(__name__)


class MoveTasks(TaskKind[MoveTask]):
    name = "move"
    poll_interval_s = POLL_INTERVAL_S

    def __init__(self, tasks: MoveTaskStore, mover: MessageMover, clock: Clock) -> None:
        self._tasks = tasks
        self._mover = mover
        self._clock = clock

    async def active(self) -> Sequence[MoveTask]:
        return await self._tasks.active()

    async def run(self, task: MoveTask, run: TaskRun) -> float:
        loop = asyncio.get_running_loop()
        task = await self._mover.begin(task)
        # a worker that died before may have messages in flight; they return when their lease ends
        complete_at_ms = self._clock.now_ms() + MOVE_LEASE_MS if task.takes > 1 else 0
        batch, interval_s = pace(task.per_second)
        while task.active and await run.may_continue():
            began_s = loop.time()
            task, taken = await self._mover.step(task, batch)
            if task.active and not taken and self._clock.now_ms() >= complete_at_ms:
                task = await self._mover.end(task, "COMPLETED")
            if task.active:
                step_s = interval_s if taken else max(interval_s, POLL_INTERVAL_S)
                await run.pause(began_s + step_s - loop.time())
        if not task.active:
            log.info(
                "message_move_task.ended", task=task.id, source=task.source_arn, status=task.status, moved=task.moved
            )
        return 0.0


def pace(per_second: int) -> tuple[int, float]:
    """The messages of a batch, and the seconds between the starts of two batches. 0 messages a second stand for no
    limit."""
    if not per_second:
        return BATCH, 0.0
    batch = min(BATCH, max(1, per_second // BATCHES_PER_S_MIN))
    return batch, batch / per_second
