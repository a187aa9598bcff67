"""The jobs that one loop runs at a time: how many more it may take, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait
from cns_workers.stats import Stats

PARKED_MAX = 2_000
"""The most parked jobs: the body of each is in memory. Admission control keeps them fewer, unless most targets hang."""

log = structlog.get_logger(__name__)


class RunningJobs:
    """At most `busy_max` jobs of `queue` are busy. A job that only waits for answers is parked and does not count, so
    that endpoints that hang do not keep other jobs waiting."""

    def __init__(self, queue: str, stats: Stats, busy_max: int) -> None:
        self._queue = queue
        self._stats = stats
        self._busy_max = busy_max
        self._tasks: set[asyncio.Task[None]] = set()
        self._parked: set[asyncio.Task[None]] = set()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def room(self) -> int:
        """Wait until a job may start. Returns how many may."""
        await self._has_room.wait()
        return self._busy_max - len(self._tasks) + len(self._parked)

    def start(self, job: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        self._update_room()

    def park(self) -> None:
        """Stop counting the current job as busy."""
        task = asyncio.current_task()
        if task in self._tasks:
            self._parked.add(task)
            self._update_room()

    async def drain(self, grace_s: float) -> int:
        """Wait for the jobs to end, then cancel the rest. Returns how many were cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        left = list(self._tasks)
        await cancel_and_wait(left)
        return len(left)

    def _update_room(self) -> None:
        busy = len(self._tasks) - len(self._parked)
        if busy < self._busy_max and len(self._parked) < PARKED_MAX:
            self._has_room.set()
        else:
            self._has_room.clear()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._parked.discard(task)
        self._update_room()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.report(error)  # its lease runs out and it comes back; after `LEASES_MAX` leases it is quarantined

    def report(self, error: BaseException) -> None:
        """Count and log the failure of a job, or of one of its targets."""
        self._stats.count_job_failure(self._queue)
        if isinstance(error, CnsError):
            log.warning("job.failed", queue=self._queue, error=str(error))
        else:
            log.error("job.crashed", queue=self._queue, exc_info=error)
