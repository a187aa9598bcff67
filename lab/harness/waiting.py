"""Waiting in tests for another process: until a condition holds, never for a fixed time."""

from __future__ import annotations

from collections.abc import Callable

from cns_pytest import http

PATIENCE_S = 1_200.0
"""The time after which a wait counts as hanging: less than half of a test's, so that its complaint comes first."""


def wait_until(condition: Callable[[], object], complaint: Callable[[], str] = lambda: "") -> None:
    """Wait until `condition` holds. Fails with `complaint` after `PATIENCE_S`."""
    if not http.wait_until(condition, PATIENCE_S):
        raise AssertionError(f"not within {PATIENCE_S} s: {complaint()}")
