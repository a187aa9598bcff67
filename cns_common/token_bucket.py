"""A token bucket: an average number of actions a second, of which a burst may go at once, as by SNS's
maxReceivesPerSecond."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

_ROUNDING = 1e-6  # of a token: the time until the rest of it may be too short to count


class TokenGrant(msgspec.Struct, frozen=True):
    """`tokens` actions may go now. If that is 0, `wait_s` is the time until those wanted, or a full bucket, may go."""

    tokens: int
    wait_s: float = 0.0


class TokenBucket:
    """Counts the tokens that are left. It never waits. Times are seconds of the caller's clock."""

    def __init__(self, per_second: float, now_s: float, *, empty: bool = False, burst: int = 0) -> None:
        """It holds `burst` tokens. If that is 0: a second's worth, or one token below one a second."""
        self.per_second = per_second
        self._size = float(burst) or max(per_second, 1.0)
        self._tokens = 0.0 if empty else self._size
        self._filled_s = now_s

    def take(self, now_s: float, wanted: int) -> TokenGrant:
        """Take as many tokens as there are, `wanted` at most."""
        added = max(now_s - self._filled_s, 0.0) * self.per_second
        self._tokens = min(self._tokens + added, self._size)
        self._filled_s = now_s
        granted = min(int(self._tokens + _ROUNDING), wanted)
        self._tokens -= granted
        if granted:
            return TokenGrant(granted)
        return TokenGrant(0, (min(wanted, self._size) - self._tokens) / self.per_second)

    def is_full(self, now_s: float) -> bool:
        """Whether it is as good as a new one."""
        return self._tokens + max(now_s - self._filled_s, 0.0) * self.per_second >= self._size - _ROUNDING

    def put_back(self, tokens: int) -> None:
        """Return tokens that were taken and not used."""
        self._tokens = min(self._tokens + tokens, self._size)


class Budget(NamedTuple):
    """A limit of actions: `burst` of them at once, then one each `interval_s` seconds."""

    burst: int
    interval_s: int

    def bucket(self, now_s: float) -> TokenBucket:
        return TokenBucket(1 / self.interval_s, now_s, burst=self.burst)
