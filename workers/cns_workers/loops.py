"""Runs named loops under one supervisor: a step that fails is logged and counted, and the loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait

PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 5.0
FAILURES_RED = 2
"""Failed steps in a row after which health is red. A single failure may come from a store that is back by now, while
the next step waits for long."""

log = structlog.get_logger(__name__)

Step = Callable[[], Awaitable[None]]
"""Waits for work, does some of it, and returns."""


def now_s() -> float:
    """The event loop's clock."""
    return asyncio.get_running_loop().time()


class Loops:
    """`failing` names the loops whose last steps failed. Health is red while there are any."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.failing: set[str] = set()
        self.failures = 0
        self._stopping = False

    def start(self, name: str, step: Step) -> None:
        self._tasks[name] = asyncio.create_task(self._run(name, step), name=name)

    async def stop(self, *, cancel: tuple[str, ...], grace_s: float) -> None:
        """Cancel the loops in `cancel`. Let the others end their step, and cancel them when the grace time is over."""
        self._stopping = True
        for name in cancel:
            self._tasks[name].cancel()
        await asyncio.wait(self._tasks.values(), timeout=grace_s)
        await cancel_and_wait(self._tasks.values())

    async def _run(self, name: str, step: Step) -> None:
        pause_s = PAUSE_FIRST_S
        in_a_row = 0
        while not self._stopping:
            try:
                await step()
            except Exception as error:  # the supervisor of loops: logged, counted, turns health red
                self.failures += 1
                in_a_row += 1
                if in_a_row >= FAILURES_RED:
                    self.failing.add(name)
                if isinstance(error, CnsError):
                    log.warning("loop.failed", loop=name, error=str(error))
                else:
                    log.error("loop.crashed", loop=name, exc_info=error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_MAX_S)
            else:
                pause_s = PAUSE_FIRST_S
                in_a_row = 0
                self.failing.discard(name)
