"""Cancels tasks whose libraries may swallow the cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

RETRY_S = 0.1


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they end. redis-py now and then swallows a cancellation while it reads."""
    ending = set(tasks)
    left = set(ending)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=RETRY_S)
    await asyncio.gather(*ending, return_exceptions=True)
