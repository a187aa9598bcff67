"""Keeps the leases of jobs while something slow is done for them, such as a send to a dead-letter queue elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")


async def with_renewals(work: Awaitable[Result], renew: Callable[[], Awaitable[None]], interval_s: float) -> Result:
    """Wait for `work`, and call `renew` each time that it has not ended within `interval_s`.

    Raises what either of them raises; `work` is cancelled if it has not ended then.
    """
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=interval_s)
            if not task.done():
                await renew()
        return task.result()
    finally:
        task.cancel()
