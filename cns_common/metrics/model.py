"""Metrics as values: what a metric is, one sample of it, and counters that a process keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One number, under the name that the metrics page shows. Labels are name-value pairs."""

    name: str
    value: float
    labels: Labels = ()

    def labelled(self, name: str, value: str) -> Sample:
        """The same sample with one more label."""
        return msgspec.structs.replace(self, labels=(*self.labels, (name, value)))


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric by Prometheus' conventions: base units (seconds, bytes), `_total` at the end of counters only."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def sample(self, value: float, **labels: str) -> Sample:
        return Sample(self.name, value, tuple(labels.items()))

    def histogram(self, bounds: Sequence[float], counts: Sequence[int], total: float, labels: Labels) -> list[Sample]:
        """`counts` are those up to each bound and, at the end, those beyond all; `total` is the sum of what was
        observed. Bounds are written as floats (1.0), as in Prometheus' own clients."""
        texts = [*[str(float(bound)) for bound in bounds], "+Inf"]
        return [
            *[
                Sample(f"{self.name}_bucket", n, (*labels, ("le", bound)))
                for bound, n in zip(texts, accumulate(counts), strict=True)
            ],
            Sample(f"{self.name}_count", sum(counts), labels),
            Sample(f"{self.name}_sum", total, labels),
        ]


class Counters:
    """Counters of one process, kept as plain integers: an increment is a dictionary's."""

    def __init__(self, *metrics: Metric) -> None:
        """`metrics` without labels, which are 0 from the start."""
        self._counts: Counter[tuple[str, Labels]] = Counter()
        for metric in metrics:
            self.start(metric)

    def start(self, metric: Metric, **values: Iterable[str]) -> None:
        """Show each combination of the label values at 0, so that a rate sees its first increment."""
        for combination in product(*values.values()):
            self._counts[(metric.name, tuple(zip(values, combination, strict=True)))] += 0

    def add(self, metric: Metric, n: int = 1, **labels: str) -> None:
        if n:
            self._counts[(metric.name, tuple(labels.items()))] += n

    def samples(self) -> list[Sample]:
        return [Sample(name, value, labels) for (name, labels), value in self._counts.items()]
