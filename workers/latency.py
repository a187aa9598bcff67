"""How long notifications take from publish to delivery: a histogram since the start, and quantiles of the last minute.

An observation is two additions. Quantiles are read from buckets that are at most an eighth of their value wide.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from cns_common.metrics import Sample

BOUNDS_MS = (
    1,
    2,
    5,
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    30_000,
    60_000,
    300_000,
    900_000,
    3_600_000,
)
SLICE_MS = 10_000
SLICES = 6
"""The last minute, and what of the next ten seconds has begun."""
QUANTILES = ((0.5, "delivery_p50_ms"), (0.99, "delivery_p99_ms"))
_LINEAR_MS = 16
_STEPS = 8
_MS_MAX = (1 << 40) - 1
_BUCKETS = 304

_ATTEMPT = ("later", "first")


class Latency:
    """Of one process; `first` tells what was delivered at the first attempt from what had to be retried."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, bool], list[int]] = {}  # a count for each bound, one beyond them, and the sum
        self._slices: dict[int, list[int]] = {}

    def observe(self, protocol: str, took_ms: int, at_ms: int, *, first: bool) -> None:
        if not 0 <= took_ms <= _MS_MAX:  # clocks of two machines differ
            took_ms = min(max(took_ms, 0), _MS_MAX)
        series = self._series.get((protocol, first))
        if series is None:
            series = self._series[protocol, first] = [0] * (len(BOUNDS_MS) + 2)
        series[bisect_left(BOUNDS_MS, took_ms)] += 1
        series[-1] += took_ms
        slice_number = at_ms // SLICE_MS
        counts = self._slices.get(slice_number)
        if counts is None:
            self._forget(slice_number - SLICES)
            counts = self._slices[slice_number] = [0] * _BUCKETS
        counts[bucket_of(took_ms)] += 1

    def samples(self, now_ms: int) -> list[Sample]:
        self._forget(now_ms // SLICE_MS - SLICES)
        samples = [sample for key in self._series for sample in self._histogram(*key)]
        if self._slices:
            counts = [sum(column) for column in zip(*self._slices.values(), strict=True)]
            samples += [Sample(name, quantile_ms(counts, share), gauge=True) for share, name in QUANTILES]
        return samples

    def _forget(self, last: int) -> None:
        for slice_number in [each for each in self._slices if each <= last]:
            del self._slices[slice_number]

    def _histogram(self, protocol: str, first: bool) -> list[Sample]:
        labels = (("protocol", protocol), ("attempt", _ATTEMPT[first]))
        *counts, sum_ms = self._series[protocol, first]
        bounds = [*[str(bound / 1000) for bound in BOUNDS_MS], "+Inf"]
        family = "delivery_seconds"
        return [
            *[
                Sample(f"{family}_bucket", n, (*labels, ("le", bound)), family=family)
                for bound, n in zip(bounds, accumulate(counts), strict=True)
            ],
            Sample(f"{family}_count", sum(counts), labels, family=family),
            Sample(f"{family}_sum", sum_ms / 1000, labels, family=family),
        ]


def bucket_of(took_ms: int) -> int:
    """A bucket for each millisecond up to 16, then eight for each doubling."""
    if took_ms < _LINEAR_MS:
        return took_ms
    shift = took_ms.bit_length() - 4
    return (shift << 3) + (took_ms >> shift)


def middle_ms(bucket: int) -> float:
    """What stands for all in the bucket."""
    if bucket < _LINEAR_MS:
        return float(bucket)
    shift = (bucket >> 3) - 1
    return (((bucket & 7) + _STEPS) << shift) + ((1 << shift) - 1) / 2


def quantile_ms(counts: list[int], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    rank = share * sum(counts)
    reached = 0
    for bucket, n in enumerate(counts):
        reached += n
        if n and reached >= rank:
            return middle_ms(bucket)
    return 0.0
