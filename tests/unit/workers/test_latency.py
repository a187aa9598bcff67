"""Times from publish to delivery: the histogram and the quantiles of the last minute."""

from __future__ import annotations

import random

import pytest

from cns_common.metrics import Sample, page
from workers.latency import BOUNDS_MS, Latency, bucket_of, middle_ms

SPREAD = [*range(5_000), 10**5, 10**6, 3_600_000, (1 << 40) - 1]


@pytest.mark.parametrize("took_ms", [0, 1, 15, 16, 17, 31, 32, 33, 100, 999, 4_321, 10**6, 3_600_000, (1 << 40) - 1])
def test_a_bucket_is_at_most_an_eighth_of_its_value_wide(took_ms: int) -> None:
    assert abs(middle_ms(bucket_of(took_ms)) - took_ms) <= took_ms / 16


def test_buckets_are_in_the_order_of_their_values() -> None:
    buckets = [bucket_of(took_ms) for took_ms in SPREAD]
    assert buckets == sorted(buckets)


def histogram(latency: Latency, **labels: str) -> dict[str, float]:
    """By the part of the name after the family's, or the bound."""
    found = {}
    for sample in latency.samples(0):
        has = dict(sample.labels)
        if sample.family and labels.items() <= has.items():
            found[has.get("le") or sample.name.removeprefix("delivery_seconds_")] = sample.value
    return found


def test_a_histogram_counts_what_does_not_exceed_each_bound() -> None:
    latency = Latency()
    for took_ms in (0, 1, 2, 3, 5, 3_600_000, 3_600_001):
        latency.observe("http", took_ms, 0, first=True)
    found = histogram(latency)
    assert (found["0.001"], found["0.002"], found["0.005"], found["900.0"]) == (2, 3, 5, 5)
    assert (found["3600.0"], found["+Inf"], found["count"], found["sum"]) == (6, 7, 7, 7_200.012)
    assert len(found) == len(BOUNDS_MS) + 3


def test_protocols_and_retried_deliveries_apart() -> None:
    latency = Latency()
    latency.observe("http", 1, 0, first=True)
    latency.observe("http", 1, 0, first=False)
    latency.observe("sqs", 1, 0, first=True)
    for labels in ({"protocol": "http", "attempt": "later"}, {"protocol": "sqs", "attempt": "first"}):
        assert histogram(latency, **labels)["count"] == 1
    assert len({sample.labels for sample in latency.samples(0) if sample.name == "delivery_seconds_count"}) == 3


def test_a_clock_that_is_behind_the_publishers_or_far_ahead() -> None:
    latency = Latency()
    latency.observe("http", -5, 0, first=True)
    latency.observe("http", 1 << 60, 0, first=True)
    assert (histogram(latency)["0.001"], histogram(latency)["count"]) == (1, 2)


def quantiles(latency: Latency, now_ms: int) -> dict[str, float]:
    return {sample.name: sample.value for sample in latency.samples(now_ms) if sample.gauge}


def test_quantiles_are_within_an_eighth_of_the_true_ones() -> None:
    latency, draw = Latency(), random.Random(1)
    values = sorted(int(draw.lognormvariate(3, 1.5)) for _ in range(5_001))
    for took_ms in values:
        latency.observe("http", took_ms, 0, first=True)
    found = quantiles(latency, 0)
    assert found["delivery_p50_ms"] == pytest.approx(values[2_500], rel=1 / 8)
    assert found["delivery_p99_ms"] == pytest.approx(values[4_950], rel=1 / 8)


def test_quantiles_forget_what_is_older_than_a_minute() -> None:
    latency = Latency()
    latency.observe("http", 1_000, 0, first=True)
    latency.observe("http", 10, 30_000, first=True)
    assert quantiles(latency, 59_999)["delivery_p99_ms"] == pytest.approx(1_000, rel=1 / 8)
    assert quantiles(latency, 60_000) == {"delivery_p50_ms": 10, "delivery_p99_ms": 10}
    assert quantiles(latency, 90_000) == {}  # nothing was delivered: nothing is said
    assert histogram(latency)["count"] == 2


def test_memory_is_bounded_however_long_nobody_asks() -> None:
    latency = Latency()
    for second in range(0, 10_000, 10):
        latency.observe("http", 1, second * 1000, first=True)
    assert len(latency._slices) <= 7


def test_the_page_shows_a_histogram_as_prometheus_reads_it() -> None:
    latency = Latency()
    latency.observe("http", 7, 0, first=True)
    shown = page([sample.labelled("process", "worker-1") for sample in latency.samples(0)]).splitlines()
    labels = 'attempt="first",le="0.01",process="worker-1",protocol="http"'
    assert "# TYPE cns_delivery_seconds histogram" in shown
    assert f"cns_delivery_seconds_bucket{{{labels}}} 1.0" in shown
    assert 'cns_delivery_seconds_sum{attempt="first",process="worker-1",protocol="http"} 0.007' in shown
    assert "# TYPE cns_delivery_p99_ms gauge" in shown


def test_counters_and_gauges_as_before() -> None:
    shown = page([Sample("a", 1), Sample("b", 2, gauge=True)])
    assert "cns_a_total 1.0" in shown
    assert "cns_b 2.0" in shown
