"""Waiting in tests for another process: until a condition holds, never for a fixed time."""

from __future__ import annotations

from collections.abc import Callable

from cns_pytest import http

PATIENCE_S = 1_200.0
"""The time after which a wait counts as hanging: less than half of a test's, so that its complaint comes first."""


def wait_until(condition: Callable[[], object], seconds: float, complaint: Callable[[], str] = lambda: "") -> None:
    """Wait until `condition` holds. Fails with `complaint` after so many seconds, `PATIENCE_S` at least."""
    seconds = max(seconds, PATIENCE_S)  # ends a test that hangs; a test that passes does not depend on it
    if not http.wait_until(condition, seconds):
        raise AssertionError(f"not within {seconds} s: {complaint()}")
