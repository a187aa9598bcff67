"""The circuit breaker of one endpoint. While it is open, one send at a time probes the endpoint, with growing pauses.

It opens after a number of messages in a row that the endpoint failed to take, and closes at the first that it takes.
Attempts of one message count once, so that the retries of one message do not open it.
"""

from __future__ import annotations

PROBE_PAUSE_FIRST_S = 1.0
PROBE_PAUSE_MAX_S = 30.0


class CircuitBreaker:
    """Arithmetic without I/O. Times are seconds of the caller's clock."""

    __slots__ = (
        "_failed_messages",
        "_failures_first",
        "_failures_max",
        "_pause_s",
        "is_open",
        "opened_at_s",
        "probe_at_s",
    )

    def __init__(self, failures_max: int, failures_first: int | None = None) -> None:
        """With `failures_max` 0 it never opens. `failures_first` holds until the first success."""
        self._failures_max = failures_max
        self._failures_first = failures_max if failures_first is None else min(failures_first, failures_max)
        self._failed_messages: set[str] = set()  # since the last success
        self._pause_s = PROBE_PAUSE_FIRST_S
        self.is_open = False
        self.opened_at_s = 0.0
        self.probe_at_s = 0.0

    def succeed(self) -> None:
        self._failures_first = self._failures_max
        self._failed_messages.clear()
        self._pause_s = PROBE_PAUSE_FIRST_S
        self.is_open = False

    def postpone(self, now_s: float) -> None:
        """A probe did not reach the endpoint: the next one is made after the same pause."""
        self.probe_at_s = now_s + self._pause_s

    def fail(self, message_id: str, now_s: float, *, probe: bool) -> None:
        if len(self._failed_messages) < self._failures_first:
            self._failed_messages.add(message_id)
        if self.is_open:
            if probe:  # sends that started before it opened change nothing
                self._pause_s = min(self._pause_s * 2, PROBE_PAUSE_MAX_S)
                self.probe_at_s = now_s + self._pause_s
        elif 0 < self._failures_first <= len(self._failed_messages):
            self.is_open = True
            self.opened_at_s = now_s
            self.probe_at_s = now_s + self._pause_s
