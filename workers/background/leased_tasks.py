"""Runs recorded tasks, each in one worker at a time: the worker that has the lease of a task runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from cns_backend.stores.contract import Lease, LeaseStore
from cns_common.clock import Clock
from cns_common.ids import hex_id

LEASE_MS = 15_000
"""Another worker takes over the tasks of a dead one after so long."""
RENEW_INTERVAL_S = 5.0


class RecordedTask(Protocol):
    @property
    def id(self) -> str: ...


Task = TypeVar("Task", bound=RecordedTask)


class TaskRun:
    """The run of a task in this worker: whether it may continue, and how it waits."""

    def __init__(self, lease: Lease, stopping: asyncio.Event) -> None:
        self._lease = lease
        self._stopping = stopping
        self._renew_at_s = _now_s() + RENEW_INTERVAL_S

    async def may_continue(self) -> bool:
        """Renew the lease when that is due. False when it is lost, or when the worker stops."""
        if self._stopping.is_set():
            return False
        if _now_s() < self._renew_at_s:
            return True
        self._renew_at_s = _now_s() + RENEW_INTERVAL_S
        return await self._lease.take()

    async def pause(self, seconds: float) -> None:
        """Returns earlier when the worker stops."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                return


class TaskKind(Protocol[Task]):
    """One kind of tasks: where they are recorded, and how one is run."""

    name: str
    """The name of the tasks' leases."""
    poll_interval_s: float
    """How often a worker looks for tasks without a worker."""

    async def active(self) -> Sequence[Task]: ...

    async def run(self, task: Task, run: TaskRun) -> float:
        """Work until the task is over, waits, or `run` may not continue. Returns for how many seconds this worker
        leaves the task alone."""
        ...


class LeasedTaskRunner(Generic[Task]):
    def __init__(self, kind: TaskKind[Task], leases: LeaseStore, clock: Clock) -> None:
        self._kind = kind
        self._leases = leases
        self._clock = clock
        self._holder = hex_id()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._resting_until_s: dict[str, float] = {}
        self._failures: list[BaseException] = []
        self._stopping = asyncio.Event()

    async def step(self) -> None:
        """Start the tasks without a worker, and wait for the poll interval. Raises what failed a task since."""
        if self._failures:
            raise self._failures.pop()
        now_s = _now_s()
        self._resting_until_s = {one: until_s for one, until_s in self._resting_until_s.items() if until_s > now_s}
        for task in await self._kind.active():
            if task.id in self._running or task.id in self._resting_until_s:
                continue
            lease = Lease(self._leases, self._kind.name, task.id, self._holder, LEASE_MS, self._clock)
            if await lease.take():
                run = self._running[task.id] = asyncio.create_task(self._run(task, lease), name=task.id)
                run.add_done_callback(self._ended)
        await asyncio.sleep(self._kind.poll_interval_s)

    async def close(self) -> None:
        """Let each task end its step; another worker continues it."""
        self._stopping.set()
        if self._running:
            await asyncio.wait(self._running.values())

    async def _run(self, task: Task, lease: Lease) -> None:
        try:
            rest_s = await self._kind.run(task, TaskRun(lease, self._stopping))
            if rest_s > 0:
                self._resting_until_s[task.id] = _now_s() + rest_s
        finally:
            await lease.give_back()

    def _ended(self, run: asyncio.Task[None]) -> None:
        del self._running[run.get_name()]
        error = None if run.cancelled() else run.exception()
        if error is not None:
            self._failures.append(error)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
