"""Maps values to coordinates, and chooses the ticks of axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log10

from cns_common.durations import DAY_MS, HOUR_MS

_TIME_STEPS_MS = (
    5 * 60_000,
    10 * 60_000,
    30 * 60_000,
    HOUR_MS,
    2 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    14 * DAY_MS,
    28 * DAY_MS,
)


SPAN_TICKS: Mapping[float, str] = {
    1: "1 ms",
    10: "10 ms",
    100: "100 ms",
    1_000: "1 s",
    10_000: "10 s",
    60_000: "1 min",
    600_000: "10 min",
    HOUR_MS: "1 h",
    6 * HOUR_MS: "6 h",
    DAY_MS: "1 d",
    10 * DAY_MS: "10 d",
    100 * DAY_MS: "100 d",
    1_000 * DAY_MS: "1,000 d",
}
"""Spans in ms, on a logarithmic axis, and their names. Messages are kept for 14 days, archives for years."""


@dataclass(frozen=True, slots=True)
class LinearScale:
    """Maps `low` to `start` and `high` to `end`; `low` is less than `high`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class LogScale:
    """As LinearScale, by the logarithm; values below `low`, which is positive, are at `start`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        part = log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        return self.start + part * (self.end - self.start)


def round_ticks(high: float, number: int, low: float = 0.0) -> list[float]:
    """About `number` round steps from at most `low` to at least `high`."""
    if high <= low:
        return [low, low + 1.0]
    rough = (high - low) / number
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * at for at in range(floor(low / step), ceil(high / step) + 1)]


def whole_ticks(high: int, number: int) -> list[float]:
    """As `round_ticks`, in whole numbers: of what is counted there is no half."""
    return [tick for tick in round_ticks(high, number) if tick == int(tick)] if high > 1 else [0.0, 1.0]


def span_ticks(low_ms: float, high_ms: float) -> list[float]:
    """Round spans of time, each several times the one before, that enclose those from `low_ms` to `high_ms`."""
    first = max([at for at, tick in enumerate(SPAN_TICKS) if tick <= low_ms], default=0)
    last = min([at for at, tick in enumerate(SPAN_TICKS) if tick >= high_ms], default=len(SPAN_TICKS) - 1)
    return list(SPAN_TICKS)[first : max(last, first + 1) + 1]


def time_ticks(since_ms: int, until_ms: int, number: int) -> list[int]:
    """At most `number` + 1 times at whole steps of UTC."""
    span_ms = until_ms - since_ms
    step_ms = next((step for step in _TIME_STEPS_MS if span_ms / step <= number), ceil(span_ms / number))
    return list(range(ceil(since_ms / step_ms) * step_ms, until_ms + 1, step_ms))
