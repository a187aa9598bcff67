"""Runs a coroutine without a task: its first step runs at once, the next as soon as its awaited future is done.

A task costs a loop turn before its first step and an entry in asyncio's registry of tasks, together as much as the
verification of a signature (ADR 0002). The coroutine may await futures and tasks. Code that needs a task around itself,
such as `asyncio.timeout`, must be awaited as a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from cns_common.task_cancellation import ignore_outcome


class CoroutineDriver:
    """Starts the coroutine when made. An exception that the coroutine raises goes to the loop's exception handler."""

    __slots__ = ("_awaited", "_coroutine", "_loop")

    def __init__(self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._awaited: asyncio.Future[Any] | None = None
        self._step()

    def interrupt(self, error: BaseException) -> None:
        """Raise `error` in the coroutine where it waits. What it waits for goes on; its result is dropped."""
        awaited = self._awaited
        if awaited is None or awaited.done():
            return  # the coroutine goes on by itself, or has ended
        awaited.remove_done_callback(self._step)
        awaited.add_done_callback(ignore_outcome)
        self._step(error=error)

    def _step(self, _: object = None, error: BaseException | None = None) -> None:
        self._awaited = None
        try:
            awaited = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001  # no caller awaits this coroutine: logged, as a task's error is
            self._loop.call_exception_handler({"message": f"{self._coroutine!r} failed", "exception": error})
            return
        if awaited is None:  # asyncio.sleep(0)
            self._loop.call_soon(self._step)
        else:
            awaited._asyncio_future_blocking = False  # asyncio's contract between a future and its task
            awaited.add_done_callback(self._step)
            self._awaited = awaited
