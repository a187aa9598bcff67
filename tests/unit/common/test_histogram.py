"""A histogram of one label, of two, and as Prometheus reads it."""

from __future__ import annotations

from cns_common.metrics.catalogue import DELIVERY_SECONDS, JOB_WAIT_SECONDS
from cns_common.metrics.histogram import Histogram
from cns_common.metrics.page import page


def test_what_does_not_exceed_a_bound_is_counted_there() -> None:
    waits = Histogram(JOB_WAIT_SECONDS, (0.1, 1))
    for seconds in (-1.0, 0.1, 0.2, 5.0):
        waits.observe(seconds, "a")
    waits.observe(1.0, "b")
    found = {
        (sample.name.removeprefix("cns_job_wait_seconds_"), *dict(sample.labels).values()): sample.value
        for sample in waits.samples()
    }
    assert found[("bucket", "a", "0.1")] == 2
    assert found[("bucket", "a", "1.0")] == 3
    assert (found[("bucket", "a", "+Inf")], found[("count", "a")]) == (4, 4)
    assert round(found[("sum", "a")], 6) == 5.3
    assert found[("count", "b")] == 1


def test_each_combination_of_labels_is_a_series() -> None:
    times = Histogram(DELIVERY_SECONDS, (0.1, 1))
    for labels in (("http", "first"), ("http", "later"), ("sqs", "first")):
        times.observe(0.5, *labels)
    counts = {sample.labels: sample.value for sample in times.samples() if sample.name == "cns_delivery_seconds_count"}
    assert list(counts.values()) == [1, 1, 1]


def test_the_page_shows_a_histogram_as_prometheus_reads_it() -> None:
    times = Histogram(DELIVERY_SECONDS, (0.005, 0.01))
    times.observe(0.007, "http", "first")
    shown = page([sample.labelled("process", "worker-1") for sample in times.samples()]).splitlines()
    labels = 'attempt="first",le="0.01",process="worker-1",protocol="http"'
    assert "# TYPE cns_delivery_seconds histogram" in shown
    assert f"cns_delivery_seconds_bucket{{{labels}}} 1.0" in shown
    assert 'cns_delivery_seconds_sum{attempt="first",process="worker-1",protocol="http"} 0.007' in shown
