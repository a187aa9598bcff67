"""A thread that signs: the work of a process's event loop and its signatures share no core where there are two."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

RESULTS_A_WAKE = 8
"""While more work waits, this many results wake the loop together: then their publishes share a commit."""

T = TypeVar("T")


class _Work(NamedTuple):
    function: Callable[[], Any]
    answer: asyncio.Future[Any]


class _Result(NamedTuple):
    answer: asyncio.Future[Any]
    value: object
    error: Exception | None


class SigningThread:
    """Runs functions one after another, and wakes the loop for several results at a time: `asyncio.to_thread` wakes it
    for each, from threads that compete for the interpreter."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[_Work] = SimpleQueue()
        self._ended: list[_Result] = []
        self._is_waking = False
        self._thread: threading.Thread | None = None

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function` in the thread. Call it on one event loop only."""
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(loop,), name="signing", daemon=True)
            self._thread.start()
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting.put(_Work(function, answer))
        return answer

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            function, answer = self._waiting.get()
            try:
                result = _Result(answer, function(), None)
            except Exception as error:  # noqa: BLE001  # the caller raises it
                result = _Result(answer, None, error)
            self._ended.append(result)
            if not self._is_waking and (self._waiting.empty() or len(self._ended) >= RESULTS_A_WAKE):
                self._is_waking = True
                with suppress(RuntimeError):  # the loop may be closed by now
                    loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._is_waking = False  # before the list is taken: what ends from now on wakes the loop again
        ended, self._ended = self._ended, []
        for answer, value, error in ended:
            if answer.done():
                continue
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)
