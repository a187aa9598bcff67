"""The signing thread: each caller gets its own result, and the loop is woken for all that ended."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from cns.delivery.signing_thread import SigningThread


async def test_results_and_errors_go_to_their_callers() -> None:
    thread = SigningThread()

    def fail() -> int:
        raise ValueError("no")

    answers = [thread.run(partial(int, n)) for n in range(100)]
    failed = thread.run(fail)
    assert await asyncio.gather(*answers) == list(range(100))
    with pytest.raises(ValueError, match="no"):
        await failed


async def test_what_ended_while_the_loop_was_busy_wakes_it_once() -> None:
    thread, ended = SigningThread(), threading.Event()
    answers = [thread.run(threading.get_ident) for _ in range(50)]
    last = thread.run(ended.set)
    ended.wait()  # blocks the loop until the thread has done everything
    wakes = 0
    while not last.done():
        await asyncio.sleep(0)
        wakes += 1
    assert len({answer.result() for answer in answers}) == 1
    assert wakes <= 2


async def test_a_caller_that_is_cancelled_stops_nobody() -> None:
    thread = SigningThread()
    gone = asyncio.ensure_future(asyncio.wait_for(thread.run(lambda: 1), None))
    gone.cancel()
    assert await thread.run(lambda: 2) == 2
