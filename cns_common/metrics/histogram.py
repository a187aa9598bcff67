"""A histogram that a process keeps, as plain integers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from cns_common.metrics.model import Metric, Sample


class Histogram:
    """One series for each combination of the values of the metric's labels. A series begins with its first time."""

    def __init__(self, metric: Metric, bounds_s: Sequence[float]) -> None:
        self._metric = metric
        self._bounds_s = bounds_s
        self._series: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}
        """A count for each bound and beyond, and the sum."""

    def observe(self, seconds: float, *values: str) -> None:
        """Count a time in the series of these label values, in the order of the metric's labels. A time below 0, by
        clocks of two machines that differ, counts as 0."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = [0] * (len(self._bounds_s) + 1), [0.0]
        seconds = max(seconds, 0.0)
        series[0][bisect_left(self._bounds_s, seconds)] += 1
        series[1][0] += seconds

    def samples(self) -> list[Sample]:
        return [
            sample
            for values, (counts, total) in self._series.items()
            for sample in self._metric.histogram(
                self._bounds_s, counts, total[0], tuple(zip(self._metric.labels, values, strict=True))
            )
        ]
