"""Ending tasks: `cns_common.task_cancellation`."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.task_cancellation import cancel_and_wait


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
    async with asyncio.timeout(10):
        await cancel_and_wait(tasks)
    assert all(task.done() for task in tasks)


async def test_tasks_that_have_failed_are_no_matter() -> None:
    async def fails() -> None:
        raise ValueError

    await cancel_and_wait([asyncio.create_task(fails())])
    await cancel_and_wait([])
