"""Counters and gauges of all processes on one page, in Prometheus's text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

PREFIX = "cns_"


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One number. Labels are name-value pairs. `family` is the histogram that it belongs to, if it does."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()
    gauge: bool = False
    family: str = ""

    def labelled(self, name: str, value: str) -> Sample:
        """One of several processes that count the same."""
        return msgspec.structs.replace(self, labels=(*self.labels, (name, value)))


class Counts:
    """Counters of one process, kept as plain integers: an increment is a dictionary's."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def add(self, name: str, n: int = 1, **labels: str) -> None:
        if n:
            self._counts[(name, tuple(labels.items()))] += n

    def samples(self) -> list[Sample]:
        return [Sample(name, value, labels) for (name, labels), value in self._counts.items()]


class _Page(Collector):
    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for sample in self._samples:
            name = sample.family or sample.name
            family = families.get(name)
            if family is None:
                family = families[name] = _kind(sample)(PREFIX + name, name.replace("_", " "))
            suffix = "" if sample.gauge or sample.family else "_total"
            family.add_sample(PREFIX + sample.name + suffix, dict(sample.labels), sample.value)
        yield from families.values()


def _kind(sample: Sample) -> type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
    if sample.family:
        return HistogramMetricFamily
    return GaugeMetricFamily if sample.gauge else CounterMetricFamily


def page(samples: Iterable[Sample]) -> str:
    """The metrics page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(list(samples)))
    return generate_latest(registry).decode()
