"""Conditional writes whose answer was lost: tried again, then read back to decide whether they were applied."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cns_common.errors import OutcomeUnknown, StoreUnavailable

TRIES_MAX = 4
TRY_WITHIN_S = 4.0
"""No further try begins after this time: the node that is asked may hang."""


async def resolve_lost_write(attempt: Callable[[], Awaitable[bool]], ours: Callable[[], Awaitable[bool]]) -> bool:
    """Whether `attempt`, a conditional write, was applied.

    The next conditional write to the partition, by any process, completes or discards one whose answer was lost. If
    the repeated write finds its condition false, `ours` tells whether the row is what this process wrote.
    """
    lost: OutcomeUnknown | None = None
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(TRIES_MAX):
        if lost is not None and loop.time() - began_s >= TRY_WITHIN_S:
            break
        try:
            if await attempt():
                return True
        except OutcomeUnknown as error:
            lost = error
            continue
        except StoreUnavailable:
            if lost is not None:  # this try wrote nothing; the outcome of the one before is unknown
                raise lost from None
            raise
        return lost is not None and await ours()
    raise lost or AssertionError("no try was made")
