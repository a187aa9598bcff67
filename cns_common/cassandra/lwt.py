"""Conditional writes whose answer was lost: tried again, then read back to decide whether they were applied."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cns_common.errors import OutcomeUnknown, StoreUnavailable

TRIES_MAX = 4


async def resolve_lost_write(attempt: Callable[[], Awaitable[bool]], ours: Callable[[], Awaitable[bool]]) -> bool:
    """Whether `attempt`, a conditional write, was applied. A lost one is either settled or undone by the next try of
    anybody, ours included; when that finds the condition false, `ours` says whether what is there is what we wrote."""
    lost: OutcomeUnknown | None = None
    for _ in range(TRIES_MAX):
        try:
            if await attempt():
                return True
        except OutcomeUnknown as error:
            lost = error
            continue
        except StoreUnavailable:
            if lost is not None:  # of this try nothing was written; of the one before, nobody knows
                raise lost from None
            raise
        return lost is not None and await ours()
    raise lost or AssertionError("no try was made")
