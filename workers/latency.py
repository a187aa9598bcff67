"""A histogram of the time from publish to delivery, since the worker started."""

from __future__ import annotations

from bisect import bisect_left

from cns_common.metrics.catalogue import DELIVERY_SECONDS
from cns_common.metrics.model import Sample

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
_BOUNDS_S = [bound / 1000 for bound in BOUNDS_MS]
_MS_MAX = (1 << 40) - 1
_ATTEMPT = ("later", "first")


class Latency:
    """Deliveries at the first attempt and those after a failure are counted apart."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, bool], list[int]] = {}  # a count for each bound, one beyond them, and the sum

    def observe(self, protocol: str, took_ms: int, *, first: bool) -> None:
        if not 0 <= took_ms <= _MS_MAX:  # clocks of two machines differ
            took_ms = min(max(took_ms, 0), _MS_MAX)
        series = self._series.get((protocol, first))
        if series is None:
            series = self._series[protocol, first] = [0] * (len(BOUNDS_MS) + 2)
        series[bisect_left(BOUNDS_MS, took_ms)] += 1
        series[-1] += took_ms

    def samples(self) -> list[Sample]:
        return [sample for key in self._series for sample in self._histogram(*key)]

    def _histogram(self, protocol: str, first: bool) -> list[Sample]:
        *counts, sum_ms = self._series[protocol, first]
        labels = (("protocol", protocol), ("attempt", _ATTEMPT[first]))
        return DELIVERY_SECONDS.histogram(_BOUNDS_S, counts, sum_ms / 1000, labels)
