"""Waiting in tests for what another process does: until it is so, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_INTERVAL_S = 0.02


def wait_until(condition: Callable[[], object], seconds: float, complaint: Callable[[], str] = lambda: "") -> None:
    """Look again and again until `condition` holds; fails with `complaint` when it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {complaint()}")
        time.sleep(POLL_INTERVAL_S)  # between two looks at what raises no event: every test that must wait does it here
