"""A histogram that a process keeps, as plain integers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from cns_common.metrics.model import Metric, Sample


class Histogram:
    """One series for each value of the metric's label."""

    def __init__(self, metric: Metric, bounds_s: Sequence[float]) -> None:
        """`metric` has one label."""
        self._metric = metric
        self._bounds_s = bounds_s
        self._series: dict[str, tuple[list[int], list[float]]] = {}  # a count for each bound and beyond, and the sum

    def observe(self, label: str, seconds: float) -> None:
        """A time below 0, by clocks of two machines that differ, counts as 0."""
        series = self._series.get(label)
        if series is None:
            series = self._series[label] = [0] * (len(self._bounds_s) + 1), [0.0]
        seconds = max(seconds, 0.0)
        series[0][bisect_left(self._bounds_s, seconds)] += 1
        series[1][0] += seconds

    def samples(self) -> list[Sample]:
        (name,) = self._metric.labels
        return [
            sample
            for label, (counts, total) in self._series.items()
            for sample in self._metric.histogram(self._bounds_s, counts, total[0], ((name, label),))
        ]
