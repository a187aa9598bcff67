"""Limits log lines that callers can cause: so many a second, with a count of those suppressed."""

from __future__ import annotations

import logging
from collections.abc import Callable

INTERVAL_S = 1.0


class LogThrottle:
    """`now_s` is a monotonic clock, in seconds. `lines` are written in an interval at most."""

    def __init__(self, now_s: Callable[[], float], lines: int = 1) -> None:
        self._now_s = now_s
        self._lines = lines
        self._left = 0
        self._next_s = float("-inf")
        self._suppressed = 0

    def admit(self) -> int | None:
        """The number of lines suppressed since the last written one, or None if this line is to be suppressed, too."""
        now_s = self._now_s()
        if now_s >= self._next_s:
            self._next_s = now_s + INTERVAL_S
            self._left = self._lines
        if not self._left:
            self._suppressed += 1
            return None
        self._left -= 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


class ThrottledRecords(logging.Filter):
    """A filter for a standard logger that throttles lines of the same text and level together."""

    KINDS_MAX = 100

    def __init__(self, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._now_s = now_s
        self._throttles: dict[object, LogThrottle] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.levelno, str(record.msg))
        if kind not in self._throttles and len(self._throttles) >= self.KINDS_MAX:
            kind = (record.levelno, "")
        suppressed = self._throttles.setdefault(kind, LogThrottle(self._now_s)).admit()
        if suppressed is None:
            return False
        if suppressed:
            record.msg = f"{record.msg} (and {suppressed} more since the last line)"
        return True
