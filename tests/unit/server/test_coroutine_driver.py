"""Coroutines without a task: `cns_server.http.coroutine_driver`."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cns_server.http.coroutine_driver import CoroutineDriver
from lab.harness.waiting import PATIENCE_S

Steps = Callable[[list[object]], Coroutine[Any, Any, None]]


async def _nothing(told: list[object]) -> None:
    told.append("done")


async def _yields(told: list[object]) -> None:
    await asyncio.sleep(0)
    told.append("done")


async def _sleeps(told: list[object]) -> None:
    await asyncio.sleep(0.001)
    told.append("done")


async def _awaits_task(told: list[object]) -> None:
    async def inner() -> str:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.sleep(0.001)
        return "done"

    told.append(await asyncio.create_task(inner()))


async def _catches(told: list[object]) -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failing.get_loop().call_soon(failing.set_exception, ValueError("wrong"))
    try:
        await failing
    except ValueError:
        told.append("done")


async def _survives_cancel(told: list[object]) -> None:
    cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cancelled.get_loop().call_soon(cancelled.cancel)
    try:
        await cancelled
    except asyncio.CancelledError:
        told.append("done")


async def _gathers(told: list[object]) -> None:
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
    told.append("done")


@pytest.mark.parametrize(
    "steps", [_nothing, _yields, _sleeps, _awaits_task, _catches, _survives_cancel, _gathers], ids=lambda f: f.__name__
)
async def test_runs_to_its_end(steps: Steps) -> None:
    told: list[object] = []
    CoroutineDriver(steps(told), asyncio.get_running_loop())
    async with asyncio.timeout(PATIENCE_S):
        while not told:
            await asyncio.sleep(0.001)
    assert told == ["done"]


async def test_begins_at_once() -> None:
    told: list[object] = []
    CoroutineDriver(_nothing(told), asyncio.get_running_loop())
    assert told == ["done"]


@pytest.mark.parametrize("suspended", [False, True])
async def test_an_error_reaches_the_loops_handler(suspended: bool) -> None:
    async def fails() -> None:
        if suspended:
            await asyncio.sleep(0)
        raise ValueError("wrong")

    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    try:
        CoroutineDriver(fails(), loop)
        await asyncio.sleep(0.001)
    finally:
        loop.set_exception_handler(None)
    (context,) = told
    assert str(context["exception"]) == "wrong"


async def test_an_interrupt_is_raised_where_it_waits() -> None:
    """The awaited call goes on, and no caller gets its error."""
    loop = asyncio.get_running_loop()
    futures = [loop.create_future(), loop.create_future()]
    told: list[object] = []

    async def waits() -> None:
        try:
            await asyncio.shield(futures[0])
        except ValueError as error:
            told.append(str(error))
        told.append(await futures[1])

    complaints: list[object] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    try:
        driver = CoroutineDriver(waits(), loop)
        driver.interrupt(ValueError("enough"))
        assert told == ["enough"]
        futures[0].set_exception(OSError("too late"))
        await asyncio.sleep(0)
        futures[1].set_result("done")
        driver.interrupt(ValueError("it goes on by itself"))
        await asyncio.sleep(0)
        driver.interrupt(ValueError("it has ended"))
        assert told == ["enough", "done"]
        futures.clear()
        gc.collect()
        assert complaints == []
    finally:
        loop.set_exception_handler(None)


async def test_what_it_awaits_keeps_it_alive() -> None:
    class Local:
        pass

    async def waits(future: asyncio.Future[None], told: list[object]) -> None:
        local = Local()
        told.append(weakref.ref(local))
        await future
        told.append(local)

    future = asyncio.get_running_loop().create_future()
    told: list[Any] = []
    CoroutineDriver(waits(future, told), asyncio.get_running_loop())
    assert told[0]() is not None
    future.set_result(None)
    await asyncio.sleep(0)
    assert told[1] is told[0]()
