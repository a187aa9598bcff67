"""Jobs that one loop has begun and not ended: how many more it may take, and how they are brought to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

from cns_common.errors import CnsError
from workers.stats import Stats

PARKED_MAX = 2_000
"""Each has its body in memory. Traffic keeps them fewer, unless most of an endpoint job's targets hang."""

log = structlog.get_logger(__name__)


class UnderWay:
    """`queue` is where the jobs came from. At most `most` are busy at once; those that only wait for an endpoint's
    answer are parked, so that endpoints which hang do not keep jobs from others."""

    def __init__(self, queue: str, stats: Stats, most: int) -> None:
        self._queue = queue
        self._stats = stats
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()
        self._parked: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()

    async def room(self) -> int:
        """How many more may begin; waits until there is one."""
        await self._room.wait()
        return self._most - self._busy

    def park(self) -> None:
        """Said by a job, of itself, for the rest of its time."""
        task = asyncio.current_task()
        if task in self._tasks:
            self._parked.add(task)
            self._look()

    def start(self, job: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        self._look()

    async def drain(self, grace_s: float) -> int:
        """Let them end; those that do not are cancelled. Returns how many those were."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)

    @property
    def _busy(self) -> int:
        return len(self._tasks) - len(self._parked)

    def _look(self) -> None:
        if self._busy < self._most and len(self._parked) < PARKED_MAX:
            self._room.set()
        else:
            self._room.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._parked.discard(task)
        self._look()
        if not task.cancelled() and (error := task.exception()) is not None:
            # the lease runs out and the job comes back; five times, and it is quarantined
            self._stats.crashed(self._queue)
            if isinstance(error, CnsError):
                log.warning("job.failed", queue=self._queue, error=str(error))
            else:
                log.error("job.crashed", queue=self._queue, exc_info=error)
