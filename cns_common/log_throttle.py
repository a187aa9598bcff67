"""Keeps a log that strangers can write to from growing with what they send: one line a second, and a count."""

from __future__ import annotations

import logging
from collections.abc import Callable

INTERVAL_S = 1.0


class LogThrottle:
    """`now_s` is a clock that does not go back, in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._next_s = float("-inf")
        self._suppressed = 0

    def admit(self) -> int | None:
        """How many lines were suppressed since the last one that was written; None: suppress this one, too."""
        now_s = self._now_s()
        if now_s < self._next_s:
            self._suppressed += 1
            return None
        suppressed, self._suppressed = self._suppressed, 0
        self._next_s = now_s + INTERVAL_S
        return suppressed


class ThrottledRecords(logging.Filter):
    """For a standard logger: the lines of one text and level count as one kind."""

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
