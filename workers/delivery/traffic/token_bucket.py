"""A token bucket for a subscription's throttle policy: an average number of receives a second (sns.md §9)."""

from __future__ import annotations

_ROUNDING = 1e-6  # of a token: the time until the rest of it may be too short to count


class TokenBucket:
    """Holds one second's worth of tokens, which may go at once. It never waits."""

    def __init__(self, per_second: int, now_s: float) -> None:
        self.per_second = per_second
        self._tokens = float(per_second)
        self._filled_s = now_s

    def take(self, now_s: float, wanted: int) -> float:
        """Take one token and return 0. Without one, return the seconds until `wanted` tokens, or a full bucket, are
        there."""
        self._fill(now_s)
        if self._tokens > 1 - _ROUNDING:
            self._tokens -= 1
            return 0.0
        return (min(wanted, self.per_second) - self._tokens) / self.per_second

    def _fill(self, now_s: float) -> None:
        added = max(now_s - self._filled_s, 0.0) * self.per_second
        self._tokens = min(self._tokens + added, float(self.per_second))
        self._filled_s = now_s
