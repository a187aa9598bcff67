"""Ends tasks and waits within limits: libraries may swallow a cancellation, and servers may not answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import structlog

RETRY_S = 0.1
CANCEL_S_MAX = 10.0
"""A task that has not ended by then is left alone."""

log = structlog.get_logger(__name__)


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they end, for `CANCEL_S_MAX` at most. redis-py now and then swallows a cancellation while it
    reads."""
    ending = set(tasks)
    left = set(ending)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=RETRY_S)
        if loop.time() - begun_s >= CANCEL_S_MAX:
            break
    for task in left:
        _abandon(task, CANCEL_S_MAX)
    await asyncio.gather(*(ending - left), return_exceptions=True)


async def wait_at_most(seconds: float, name: str, work: Coroutine[Any, Any, object]) -> bool:
    """Run the last work of a component that stops. Returns whether it ended in time; else it is cancelled, and left
    alone. Raises what the work raises."""
    task = asyncio.create_task(work, name=name)
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        task.cancel()
        _abandon(task, seconds)
        return False
    await task
    return True


def ignore_outcome(done: asyncio.Future[Any]) -> None:
    """A callback of a future that nobody awaits any more: asyncio would report its exception."""
    if not done.cancelled():
        done.exception()


async def in_daemon(work: Callable[[], object]) -> None:
    """Run blocking work in a thread that does not keep the process from its end, as those of `asyncio.to_thread` do. If
    it raises, the thread says so on standard error."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        try:
            work()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, daemon=True).start()
    await ended.wait()


def _abandon(task: asyncio.Task[Any], seconds: float) -> None:
    log.warning("task.abandoned", task=task.get_name(), seconds=seconds)
    task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from reporting an exception that nobody awaits."""
    if not task.cancelled():
        task.exception()
