"""The metrics page: the samples of all processes in Prometheus' text format, each with its metric's type and help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from cns_common.metrics.catalogue import BUILD_INFO, METRICS
from cns_common.metrics.model import Kind, Sample

FOREIGN_HELP = "Reported by a process of another version."
_FAMILIES: dict[Kind, type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
_HISTOGRAM_PARTS = ("_bucket", "_count", "_sum")

_PROCESS = ProcessCollector(registry=None)


def process_samples(version: str) -> list[Sample]:
    """The version of this process and, on Linux only, its CPU time, memory and file descriptors."""
    measured = [Sample(sample.name, sample.value) for family in _PROCESS.collect() for sample in family.samples]
    return [BUILD_INFO.sample(1, version=version), *measured]


def page(samples: Iterable[Sample]) -> str:
    """The metrics page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(list(samples)))
    return generate_latest(registry).decode()


class _Page(Collector):
    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        families: dict[str, Family] = {}
        for sample in self._samples:
            name = _metric_name(sample.name)
            family = families.get(name)
            if family is None:
                family = families[name] = _family(name)
            family.add_sample(sample.name, dict(sample.labels), sample.value)
        yield from families.values()


def _metric_name(sample_name: str) -> str:
    for part in _HISTOGRAM_PARTS:
        name = sample_name.removesuffix(part)
        if name in METRICS:
            return name
    return sample_name


def _family(name: str) -> Family:
    metric = METRICS.get(name)
    if metric is None:
        return UnknownMetricFamily(name, FOREIGN_HELP)
    return _FAMILIES[metric.kind](name.removesuffix("_total"), metric.help)
