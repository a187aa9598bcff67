"""End a test process whose test goes on after its timeout, and print what its tasks wait for.

pytest-timeout raises one exception in the main thread. If a callback of the event loop gets it, the loop only logs it:
without this plugin the test and the whole run would hang.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import sys
import threading
from collections.abc import Generator

import pytest

GRACE_S = 60.0
"""The time that a test has for its end, clean-up included, after its timeout."""
EXIT_HUNG = 70
STACK_MAX = 50


class HungTests:
    """A pytest plugin. With pytest-xdist the controller reports the test as failed and starts another process."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        limit_s = timeout_of(item) + GRACE_S
        timer = threading.Timer(limit_s, end_process, (item.nodeid, limit_s))
        timer.daemon = True
        timer.start()
        try:
            return (yield)
        finally:
            timer.cancel()


def timeout_of(item: pytest.Item) -> float:
    """The timeout of a test in seconds, by its mark or the project's setting."""
    mark = item.get_closest_marker("timeout")
    if mark is not None and mark.args:
        return float(mark.args[0])
    return float(item.config.getoption("timeout", None) or item.config.getini("timeout"))


def end_process(test: str, limit_s: float) -> None:
    output = sys.__stderr__ or sys.stderr
    print(f"\n{test} goes on after {limit_s:.0f} s. Threads and tasks:", file=output, flush=True)
    faulthandler.dump_traceback(output)
    print("\n".join(task_stacks()), file=output, flush=True)
    os._exit(EXIT_HUNG)


def task_stacks() -> list[str]:
    """One line for each task, with the places where its coroutines wait, the innermost last."""
    lines: list[str] = []
    tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task) and not each.done()]
    for task in tasks:
        places: list[str] = []
        waiter: object = task.get_coro()
        while waiter is not None and len(places) < STACK_MAX:
            frame = getattr(waiter, "cr_frame", None) or getattr(waiter, "gi_frame", None)
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else repr(waiter))
            waiter = getattr(waiter, "cr_await", None) or getattr(waiter, "gi_yieldfrom", None)
        lines.append(f"{task.get_name()}: {' > '.join(places)}")
    return lines
