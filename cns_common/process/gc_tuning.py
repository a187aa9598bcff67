"""Keeps garbage collections short: while one runs, every call and send of the process waits.

Calls and jobs leave no cycles (ADR 0002), so a collection mostly scans live objects. The interpreter starts one when
objects created minus objects freed exceed a threshold. If as many old objects die as new ones are created, as with
sends that hang for 15 s, that difference does not grow, and young objects gather by ten thousands: so the young
generations are collected at intervals, too.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (500, 4, 100_000)
"""Long-lived objects (10,000 waiting polls are 300,000) are scanned in small numbers while they are young, and then in
a full collection about once an hour."""
POLL_INTERVAL_S = 0.05
_YOUNG = 1
"""Collects generations 0 and 1."""


@contextmanager
def short_gc_pauses() -> Iterator[None]:
    """Needs a running loop. Objects that exist by now are never scanned: that took 40 ms."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def collect_young() -> None:
        nonlocal timer
        gc.collect(_YOUNG)
        timer = loop.call_later(POLL_INTERVAL_S, collect_young)

    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    timer = loop.call_later(POLL_INTERVAL_S, collect_young)
    try:
        yield
    finally:
        timer.cancel()
