"""Computes when a failed delivery is retried, from a policy's four phases, without clock and I/O.

The backoff formulas are those of the original CMB (AWS publishes none): each rises from the minimum to the maximum
delay. Unlike in CMB every policy ends: the counts of the phases add up to `retries`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

TOTAL_S_MAX = 3600  # AWS: no HTTP endpoint is retried later than this after the first attempt
RETRIES_MAX = 100
JITTER_SHARE = 0.1  # of a delay: enough to spread a burst, too little to change the order of the phases


class Phase(StrEnum):
    """The four phases of a policy, in order."""

    IMMEDIATE = "immediate"
    PRE_BACKOFF = "pre-backoff"
    BACKOFF = "backoff"
    POST_BACKOFF = "post-backoff"


class Backoff(StrEnum):
    """The growth of the delay from the minimum to the maximum in the backoff phase."""

    LINEAR = "linear"
    ARITHMETIC = "arithmetic"
    GEOMETRIC = "geometric"
    EXPONENTIAL = "exponential"


class Retry(NamedTuple):
    """One retry: its phase, and its delay after the failure."""

    phase: Phase
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`retries` is the total; the backoff phase has what the three other counts leave."""

    min_delay_s: float = 20
    max_delay_s: float = 20
    retries: int = 3
    no_delay: int = 0
    min_delay: int = 0
    max_delay: int = 0
    backoff: Backoff = Backoff.LINEAR
    total_s: float = TOTAL_S_MAX  # from the first attempt to the last retry, whatever the phases say

    def __post_init__(self) -> None:
        if min(self.no_delay, self.min_delay, self.max_delay, self.backoff_count) < 0:
            raise ValueError(f"the phases of {self} do not add up to its retries")
        if not 0 <= self.min_delay_s <= self.max_delay_s:
            raise ValueError(f"the delays of {self} are out of order")

    @property
    def backoff_count(self) -> int:
        return self.retries - self.no_delay - self.min_delay - self.max_delay

    def phases(self) -> tuple[tuple[Phase, int], ...]:
        return (
            (Phase.IMMEDIATE, self.no_delay),
            (Phase.PRE_BACKOFF, self.min_delay),
            (Phase.BACKOFF, self.backoff_count),
            (Phase.POST_BACKOFF, self.max_delay),
        )

    def delay_s(self, phase: Phase, step: int) -> float:
        """The delay before retry number `step` (from 0) of a phase."""
        if phase is Phase.IMMEDIATE:
            return 0.0
        if phase is Phase.PRE_BACKOFF:
            return float(self.min_delay_s)
        if phase is Phase.POST_BACKOFF:
            return float(self.max_delay_s)
        return _backoff_delay_s(self, step)


def next_retry(policy: RetryPolicy, failures: int) -> Retry | None:
    """The retry that follows the given number of failures (at least 1), or None when spent."""
    step = failures - 1
    for phase, count in policy.phases():
        if step < count:
            return Retry(phase, policy.delay_s(phase, step))
        step -= count
    return None


def due_retry(
    policy: RetryPolicy, failures: int, *, elapsed_s: float, retry_after_s: float = 0.0, jitter: float = 0.0
) -> Retry | None:
    """The next retry with Retry-After and jitter, `elapsed_s` after the first attempt began.

    `retry_after_s` can only lengthen the delay, and by at most TOTAL_S_MAX. `jitter` is in [0, 1). Neither moves a
    retry past the policy's total: it is made at the last moment instead. A retry whose planned delay alone passes the
    total is not made.
    """
    planned = next_retry(policy, failures)
    left_s = policy.total_s - elapsed_s
    if planned is None or planned.delay_s > left_s or left_s < 0:
        return None
    spread_s = planned.delay_s * (1 + JITTER_SHARE * jitter)
    return Retry(planned.phase, min(max(spread_s, min(retry_after_s, TOTAL_S_MAX)), left_s))


def delays_s(policy: RetryPolicy) -> Iterator[float]:
    """The planned delay before every retry, in order."""
    for phase, count in policy.phases():
        for step in range(count):
            yield policy.delay_s(phase, step)


@cache
def lifetime_s(policy: RetryPolicy) -> float:
    """The time after its first attempt, in seconds, until which a target may be tried when attempts were deferred."""
    return policy.total_s if math.isfinite(policy.total_s) else sum(delays_s(policy)) * (1 + JITTER_SHARE)


def _backoff_delay_s(policy: RetryPolicy, step: int) -> float:
    last = policy.backoff_count - 1
    least, most = float(policy.min_delay_s), float(policy.max_delay_s)
    if last < 1 or most <= least:  # no range to grow through: the formulas would divide by zero
        return least
    grown = _CURVES[policy.backoff](most - least, step, last)
    return min(least + grown, most)  # rounding must not pass the maximum


def _linear(range_s: float, step: int, last: int) -> float:
    return range_s * step / last


def _arithmetic(range_s: float, step: int, last: int) -> float:
    return range_s * (step / last) ** 2


def _geometric(range_s: float, step: int, last: int) -> float:
    return math.expm1(math.log1p(range_s) * step / last)


def _exponential(range_s: float, step: int, last: int) -> float:
    """range·(eˢ−1)/(eˡ−1), written with falling exponents because eˡ overflows from l = 710 on."""
    return range_s * (math.exp(step - last) * (math.expm1(-step) / math.expm1(-last)))


_CURVES: MappingProxyType[Backoff, Callable[[float, int, int], float]] = MappingProxyType(
    {
        Backoff.LINEAR: _linear,
        Backoff.ARITHMETIC: _arithmetic,
        Backoff.GEOMETRIC: _geometric,
        Backoff.EXPONENTIAL: _exponential,
    }
)

# AWS's fixed policies, which no delivery policy changes: 23 days for queues, 6 hours for mail.
QUEUE_POLICY = RetryPolicy(
    min_delay_s=1,
    max_delay_s=20,
    retries=100_015,
    no_delay=3,
    min_delay=2,
    max_delay=100_000,
    backoff=Backoff.EXPONENTIAL,
    total_s=28 * 86_400,  # 23 days of delays and the time of the attempts; a notification is kept for 30 days
)
MAIL_POLICY = RetryPolicy(
    min_delay_s=10,
    max_delay_s=600,
    retries=50,
    min_delay=2,
    max_delay=38,
    backoff=Backoff.EXPONENTIAL,
    total_s=math.inf,
)
