"""Waiting in tests for another process: until a condition holds, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_INTERVAL_S = 0.02
PATIENCE_S = 1_200.0
"""The time after which a wait counts as hanging: less than half of a test's, so that its complaint comes first."""


def wait_until(condition: Callable[[], object], seconds: float, complaint: Callable[[], str] = lambda: "") -> None:
    """Wait until `condition` holds. Fails with `complaint` after so many seconds, `PATIENCE_S` at least."""
    seconds = max(seconds, PATIENCE_S)
    until = time.monotonic() + seconds  # ends a test that hangs; a test that passes does not depend on it
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {complaint()}")
        time.sleep(POLL_INTERVAL_S)  # between two looks at what raises no event: every test that must wait does it here
