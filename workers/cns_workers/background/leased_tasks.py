"""Runs recorded tasks, each in one worker at a time: the worker that has the lease of a task runs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

from cns_backend.stores.contract import LeaseStore, TaskLease
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cns_common.task_cancellation import cancel_and_wait
from cns_workers.loops import now_s

LEASE_MS = 15_000
"""The duration of a lease: when it ends, another worker takes over a dead worker's tasks."""
TRIGGER_GRACE_S = 5.0
"""How long a requested run may take to begin; then this worker runs the task itself."""
STEP_S_MAX = 5.0
"""The limit of a step when the worker stops. Another worker repeats a step that is cut off."""


class RecordedTask(Protocol):
    @property
    def id(self) -> str: ...


Task = TypeVar("Task", bound=RecordedTask)


class TaskRun:
    """The run of a task in this worker: whether it may continue, and how it waits."""

    def __init__(self, lease: TaskLease, stopping: asyncio.Event) -> None:
        self._lease = lease
        self._stopping = stopping

    async def may_continue(self) -> bool:
        """Renew the lease when that is due. False when it is lost, or when the worker stops."""
        return not self._stopping.is_set() and await self._lease.keep()

    async def pause(self, seconds: float) -> None:
        """Returns earlier when the worker stops."""
        await _wait(self._stopping, seconds)


class TaskKind(Protocol[Task]):
    """One kind of tasks: where they are recorded, and how one is run."""

    name: str
    """The name of the tasks' leases."""
    poll_interval_s: float
    """The interval at which a worker looks for tasks without a worker."""

    async def active(self) -> Sequence[Task]: ...

    async def run(self, task: Task, run: TaskRun) -> float:
        """Work until the task is over, waits, or `run` may not continue. Returns for how many seconds this worker
        leaves the task alone."""
        ...


Trigger = Callable[[str, str], bool]
"""Requests a run of a task, by its kind and id. Returns False if none can be requested now."""


class LeasedTaskRunner(Generic[Task]):
    """Finds recorded tasks and runs them. With a `trigger` it first requests a run elsewhere, such as by a Celery task,
    and itself runs only what does not begin there within `TRIGGER_GRACE_S`."""

    def __init__(self, kind: TaskKind[Task], leases: LeaseStore, clock: Clock) -> None:
        self.trigger: Trigger | None = None
        self._kind = kind
        self._leases = leases
        self._clock = clock
        self._holder = hex_id()
        self._running: dict[str, asyncio.Task[float]] = {}
        self._resting_until_s: dict[str, float] = {}
        self._kept: set[str] = set()  # tasks of `run_until_over`
        self._triggered_until_s: dict[str, float] = {}
        self._failures: list[BaseException] = []
        self._stopping = asyncio.Event()

    async def step(self) -> None:
        """Start the tasks without a worker, and wait for the poll interval. Raises the error of a task that has
        failed."""
        if self._failures:
            raise self._failures.pop()
        at_s = now_s()
        self._resting_until_s = {one: until_s for one, until_s in self._resting_until_s.items() if until_s > at_s}
        tasks = await self._kind.active()
        self._forget_ended({task.id for task in tasks})
        for task in tasks:
            if not (self._is_ours(task) or task.id in self._resting_until_s or self._asked_for(task, at_s)):
                await self._start(task)
        await asyncio.sleep(self._kind.poll_interval_s)

    async def sweep(self) -> int:
        """Request a run of each recorded task that does not run here. Returns how many were requested."""
        if self.trigger is None:
            return 0
        waiting = [task for task in await self._kind.active() if not self._is_ours(task)]
        return sum([self.trigger(self._kind.name, task.id) for task in waiting])

    async def run_until_over(self, task_id: str) -> bool:
        """Run one task as long as it is active and this worker may. Returns False if it did not run: it is over, or
        another run has it."""
        if task_id in self._kept:
            return False
        self._kept.add(task_id)
        ran = False
        try:
            while not self._stopping.is_set():
                found = [task for task in await self._kind.active() if task.id == task_id]
                run = await self._start(found[0]) if found else None
                if run is None:
                    return ran
                ran = True
                await asyncio.wait((run,))
                if run.cancelled() or run.exception() is not None:
                    return ran
                await _wait(self._stopping, run.result())
        finally:
            self._kept.discard(task_id)
        return ran

    async def close(self) -> None:
        """Let each task end its step, within `STEP_S_MAX`; another worker continues it."""
        self._stopping.set()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=STEP_S_MAX)
            await cancel_and_wait([*self._running.values()])

    async def _start(self, task: Task) -> asyncio.Task[float] | None:
        """Run it unless another worker has its lease."""
        lease = TaskLease(self._leases, self._kind.name, task.id, self._holder, LEASE_MS, self._clock)
        if task.id in self._running or not await lease.take() or task.id in self._running:
            return None  # the holder is this worker: it may have begun meanwhile
        run = self._running[task.id] = asyncio.create_task(self._run(task, lease), name=task.id)
        run.add_done_callback(self._ended)
        return run

    async def _run(self, task: Task, lease: TaskLease) -> float:
        try:
            rest_s = await self._kind.run(task, TaskRun(lease, self._stopping))
            if rest_s > 0:
                self._resting_until_s[task.id] = now_s() + rest_s
            return rest_s
        finally:
            await lease.give_back()

    def _is_ours(self, task: Task) -> bool:
        return task.id in self._running or task.id in self._kept

    def _asked_for(self, task: Task, at_s: float) -> bool:
        """Whether a run elsewhere was requested and may still begin."""
        if self.trigger is None:
            return False
        until_s = self._triggered_until_s.get(task.id)
        if until_s is None and self.trigger(self._kind.name, task.id):
            until_s = self._triggered_until_s[task.id] = at_s + TRIGGER_GRACE_S
        return until_s is not None and at_s < until_s

    def _forget_ended(self, active: Collection[str]) -> None:
        for task_id in [task_id for task_id in self._triggered_until_s if task_id not in active]:
            del self._triggered_until_s[task_id]

    def _ended(self, run: asyncio.Task[float]) -> None:
        del self._running[run.get_name()]
        error = None if run.cancelled() else run.exception()
        if error is not None:
            self._failures.append(error)


async def _wait(stopping: asyncio.Event, seconds: float) -> None:
    if seconds > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stopping.wait()
