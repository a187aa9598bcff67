"""Limits attempts by name. The attempts of a name are counted however many names there are."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from cns_common.token_bucket import Budget, TokenBucket
from cns_server.rest.problems import Problem

SWEEP_S = 1.0
"""The least time between two searches for full buckets, which read all of them."""


class AttemptLimit:
    """A budget of attempts for each name. `now_s` is a monotonic clock, in seconds; `text` begins the error text.

    A bucket that is full again is as good as a new one and is dropped when there are `names_max`. If none is full, new
    names are refused: so attempts on many names give none back."""

    def __init__(self, budget: Budget, names_max: int, now_s: Callable[[], float], text: str) -> None:
        self._budget = budget
        self._names_max = names_max
        self._now_s = now_s
        self._text = text
        self._buckets: dict[str, TokenBucket] = {}
        self._swept_s = now_s() - SWEEP_S

    def take(self, name: str) -> TokenBucket:
        """Take one attempt from the name's bucket, and return the bucket. Raises Problem 429 if it is empty."""
        now_s = self._now_s()
        bucket = self._buckets.get(name)
        if bucket is None:
            self._make_room(now_s)
            bucket = self._buckets[name] = self._budget.bucket(now_s)
        grant = bucket.take(now_s, 1)
        if not grant.tokens:
            raise self._refusal(grant.wait_s)
        return bucket

    def _make_room(self, now_s: float) -> None:
        if len(self._buckets) < self._names_max:
            return
        if now_s - self._swept_s >= SWEEP_S:
            self._swept_s = now_s
            self._buckets = {name: bucket for name, bucket in self._buckets.items() if not bucket.is_full(now_s)}
        if len(self._buckets) >= self._names_max:
            raise self._refusal(self._budget.interval_s)

    def _refusal(self, wait_s: float) -> Problem:
        return Problem(429, "TooManyAttempts", f"{self._text} Try again in {ceil(wait_s)} seconds.")
