"""Starts, cancels and lists message move tasks. `cqs.redrive.mover` runs them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from cns_common.clock import Clock
from cns_common.errors import RequestError, StoreUnavailable
from cns_common.ids import uuid_text
from cqs.limits import MOVE_TASKS_ACTIVE_MAX
from cqs.queues.view import QueueView
from cqs.redrive.task import MoveTask
from cqs.stores.contract import MoveTaskStore, QueueStore

UPDATE_TRIES_MAX = 20


class MoveTaskList:
    def __init__(self, store: MoveTaskStore, queues: QueueStore, clock: Clock) -> None:
        self.store = store
        self._queues = queues
        self._clock = clock

    async def start(self, source: QueueView, destination: QueueView | None, per_second: int) -> MoveTask:
        """Record a new task; a worker will run it. Raises RequestError if the source is not a dead-letter queue, or has
        or its account has too many active tasks."""
        if not await self._queues.dead_letter_sources(source.arn, "", 1):
            raise RequestError("InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
        active = [task for task in await self.store.active() if task.account == source.account]
        if len(active) >= MOVE_TASKS_ACTIVE_MAX:
            raise RequestError("OverLimit", f"At most {MOVE_TASKS_ACTIVE_MAX} message move tasks may be active.")
        now_ms = self._clock.now_ms()
        task = MoveTask(
            id=uuid_text(),
            account=source.account,
            source_arn=source.arn,
            source_id=source.queue.id,
            destination_arn="" if destination is None else destination.arn,
            per_second=per_second,
            started_ms=now_ms,
            to_move=(await source.engine.counts(source.ref, now_ms)).visible,
        )
        if not await self.store.create(task):
            raise RequestError(
                "InvalidParameterValue",
                "There is already a task running. Only one active task is allowed for a source queue arn at a given "
                "time.",
            )
        return task

    async def cancel(self, source_arn: str, task_id: str) -> MoveTask:
        """Request the cancellation: the worker ends the task after its current batch."""
        task = await self.store.get(source_arn, task_id)
        if task is not None and task.status == "RUNNING":
            task = await update(self.store, task, _cancelled)
            if task is not None and task.status == "CANCELLING":
                return task
        raise RequestError("ResourceNotFoundException", "Task does not exist.")

    async def newest(self, source_arn: str, n: int) -> list[MoveTask]:
        return await self.store.newest(source_arn, n)


async def update(store: MoveTaskStore, task: MoveTask, change: Callable[[MoveTask], MoveTask]) -> MoveTask | None:
    """Replace the record by the result of `change` for the current one; None if the record is gone."""
    current: MoveTask | None = task
    for _ in range(UPDATE_TRIES_MAX):
        if current is None:
            return None
        changed = replace(change(current), version=current.version + 1)
        if await store.replace(changed, current.version):
            return changed
        current = await store.get(task.source_arn, task.id)
    raise StoreUnavailable(f"too many changes of move task {task.id} at once")


def _cancelled(task: MoveTask) -> MoveTask:
    return replace(task, status="CANCELLING") if task.status == "RUNNING" else task
