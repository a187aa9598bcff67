"""FinalCause tasks: `cns_common.task_cancellation`."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cns_common import task_cancellation
from cns_common.task_cancellation import cancel_and_wait, in_daemon, wait_at_most
from lab.harness.waiting import PATIENCE_S

NEVER_S = 3_600.0


@pytest.mark.parametrize("swallows", [0, 1, 3])
async def test_tasks_end_whatever_they_swallow(swallows: int) -> None:
    async def stubborn() -> None:
        for _ in range(swallows):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(stubborn()) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await cancel_and_wait(tasks)
    assert all(task.done() for task in tasks)


async def test_tasks_that_have_failed_are_no_matter() -> None:
    async def fails() -> None:
        raise ValueError

    await cancel_and_wait([asyncio.create_task(fails())])
    await cancel_and_wait([])


async def test_a_task_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_cancellation, "CANCEL_S_MAX", 0.0)
    end = asyncio.Event()

    async def deaf() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    deaf_one, other = asyncio.create_task(deaf()), asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await cancel_and_wait([deaf_one, other])
    assert other.cancelled()
    assert not deaf_one.done()
    end.set()
    await deaf_one


async def test_last_work_that_ends_in_time() -> None:
    async def ends() -> None:
        await asyncio.sleep(0)

    async def fails() -> None:
        raise ValueError("why")

    assert await wait_at_most(NEVER_S, "ends", ends())
    with pytest.raises(ValueError, match="why"):
        await wait_at_most(NEVER_S, "fails", fails())


async def test_last_work_that_hangs_is_cancelled_and_left() -> None:
    stopped = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
            await asyncio.Event().wait()  # its own end may hang, too

    assert not await wait_at_most(0.01, "hangs", hangs())
    await stopped.wait()
    left = [task for task in asyncio.all_tasks() if task.get_name() == "hangs"]
    await cancel_and_wait(left)
    assert len(left) == 1


async def test_blocking_work_in_a_thread_that_the_process_does_not_wait_for() -> None:
    threads: list[threading.Thread] = []
    await in_daemon(lambda: threads.append(threading.current_thread()))
    assert [thread.daemon for thread in threads] == [True]
    assert threads[0] is not threading.main_thread()
