"""Jobs that one loop has begun and not ended: how many more it may take, and how they are brought to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

from common.errors import CnsError
from workers.stats import Stats

log = structlog.get_logger(__name__)


class UnderWay:
    """`queue` is where the jobs came from; there are at most `most` at once."""

    def __init__(self, queue: str, stats: Stats, most: int) -> None:
        self._queue = queue
        self._stats = stats
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()

    async def room(self) -> int:
        """How many more may begin; waits until there is one."""
        await self._room.wait()
        return self._most - len(self._tasks)

    def start(self, job: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if len(self._tasks) >= self._most:
            self._room.clear()

    async def drain(self, grace_s: float) -> int:
        """Let them end; those that do not are cancelled. Returns how many those were."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # the lease runs out and the job comes back; five times, and it is quarantined
            self._stats.crashed(self._queue)
            if isinstance(error, CnsError):
                log.warning("job.failed", queue=self._queue, error=str(error))
            else:
                log.error("job.crashed", queue=self._queue, exc_info=error)
