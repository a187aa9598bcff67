"""A subscription's throttle policy: an average of so many receives a second (sns.md §9), as a token bucket."""

from __future__ import annotations

_ROUNDING = 1e-6  # of a token: the time for the rest of it may be too short to count


class Throttle:
    """Never waits: it says whether one may go now, or when. A second's worth may go at once."""

    def __init__(self, per_second: int, now_s: float) -> None:
        self.per_second = per_second
        self._tokens = float(per_second)
        self._filled_s = now_s

    def take_turn(self, now_s: float, wanted: int) -> float:
        """0: one may go now, and was counted. Else: in how many seconds so many may, or as many as ever may at once."""
        self._fill(now_s)
        if self._tokens > 1 - _ROUNDING:
            self._tokens -= 1
            return 0.0
        return (min(wanted, self.per_second) - self._tokens) / self.per_second

    def _fill(self, now_s: float) -> None:
        grown = max(now_s - self._filled_s, 0.0) * self.per_second
        self._tokens = min(self._tokens + grown, float(self.per_second))
        self._filled_s = now_s
