"""Garbage collections that nobody feels: while one lasts, every call and send of the process stands still.

Calls and jobs leave no cycles behind (ADR 0002), so what a collection looks at merely lives on. The interpreter begins
one when objects made less objects freed are above a threshold. Where as many old ones end as new ones begin, as sends
do that hang for 15 s, that difference stands still and the young gather by ten thousands: so they are looked at by
time, too.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (500, 4, 100_000)
"""What waits (10,000 polls are 300,000 objects) is looked at a few at a time as it comes, and then as one of all
objects about once an hour."""
POLL_INTERVAL_S = 0.05
_YOUNG = 1
"""The two generations that are not of all objects."""


@contextmanager
def short_gc_pauses() -> Iterator[None]:
    """On a running loop. What there is by now is left out of all: it took 40 ms."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        gc.collect(_YOUNG)
        timer = loop.call_later(POLL_INTERVAL_S, look)

    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    timer = loop.call_later(POLL_INTERVAL_S, look)
    try:
        yield
    finally:
        timer.cancel()
