"""Runs a coroutine without a task: it begins at once, and goes on as soon as what it awaits is done.

A task costs a loop turn before its first step and an entry in asyncio's registry of all tasks, together as much as
verifying a signature (ADR 0002). What is run here may await futures and tasks; what needs a task around itself, such as
`asyncio.timeout`, must be awaited as a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Eager:
    """Begins when made. The coroutine handles its own errors: whatever it raises goes to the loop's handler."""

    __slots__ = ("_coroutine", "_loop")

    def __init__(self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._step()

    def _step(self, _: object = None) -> None:
        try:
            awaited = self._coroutine.send(None)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001  # nobody awaits this coroutine: as a task's that is never fetched
            self._loop.call_exception_handler({"message": f"{self._coroutine!r} failed", "exception": error})
            return
        if awaited is None:  # asyncio.sleep(0)
            self._loop.call_soon(self._step)
        else:
            awaited._asyncio_future_blocking = False  # asyncio's contract between a future and its task
            awaited.add_done_callback(self._step)
