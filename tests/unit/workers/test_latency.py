"""Times from publish to delivery: the histogram."""

from __future__ import annotations

from cns_common.metrics.page import page
from workers.latency import BOUNDS_MS, Latency


def histogram(latency: Latency, **labels: str) -> dict[str, float]:
    """Values by bucket bound, or by suffix of the metric's name."""
    found = {}
    for sample in latency.samples():
        has = dict(sample.labels)
        if labels.items() <= has.items():
            found[has.get("le") or sample.name.removeprefix("cns_delivery_seconds_")] = sample.value
    return found


def test_a_histogram_counts_what_does_not_exceed_each_bound() -> None:
    latency = Latency()
    for took_ms in (0, 1, 2, 3, 5, 3_600_000, 3_600_001):
        latency.observe("http", took_ms, first=True)
    found = histogram(latency)
    assert (found["0.001"], found["0.002"], found["0.005"], found["900.0"]) == (2, 3, 5, 5)
    assert (found["3600.0"], found["+Inf"], found["count"], found["sum"]) == (6, 7, 7, 7_200.012)
    assert len(found) == len(BOUNDS_MS) + 3


def test_protocols_and_retried_deliveries_apart() -> None:
    latency = Latency()
    latency.observe("http", 1, first=True)
    latency.observe("http", 1, first=False)
    latency.observe("sqs", 1, first=True)
    for labels in ({"protocol": "http", "attempt": "later"}, {"protocol": "sqs", "attempt": "first"}):
        assert histogram(latency, **labels)["count"] == 1
    assert len({sample.labels for sample in latency.samples() if sample.name == "cns_delivery_seconds_count"}) == 3


def test_a_clock_that_is_behind_the_publishers_or_far_ahead() -> None:
    latency = Latency()
    latency.observe("http", -5, first=True)
    latency.observe("http", 1 << 60, first=True)
    assert (histogram(latency)["0.001"], histogram(latency)["count"]) == (1, 2)


def test_the_page_shows_a_histogram_as_prometheus_reads_it() -> None:
    latency = Latency()
    latency.observe("http", 7, first=True)
    shown = page([sample.labelled("process", "worker-1") for sample in latency.samples()]).splitlines()
    labels = 'attempt="first",le="0.01",process="worker-1",protocol="http"'
    assert "# TYPE cns_delivery_seconds histogram" in shown
    assert f"cns_delivery_seconds_bucket{{{labels}}} 1.0" in shown
    assert 'cns_delivery_seconds_sum{attempt="first",process="worker-1",protocol="http"} 0.007' in shown
