"""Metrics keep Prometheus' conventions, are documented, and are all there from the start."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import cns
from cns_common.metrics import catalogue
from cns_common.metrics.catalogue import API_CALLS, DELIVERIES, DELIVERY_SECONDS, METRICS, QUARANTINE_JOBS
from cns_common.metrics.model import Counters, Metric, Sample
from cns_common.metrics.page import FOREIGN_HELP, page, process_samples
from cns_workers.stats import Stats
from tests.operator_docs import TEXT

ROOT = Path(cns.__file__).parents[1]
PRODUCT = ("cns", "cns_backend", "cns_common", "cns_server", "cqs", "workers")
NOT_BASE_UNITS = re.compile(
    r"(^|_)(ms|us|ns|s|sec|milliseconds?|microseconds?|minutes?|hours?|days?|kb|mb|kib|mib|kilobytes|megabytes"
    r"|pages|percent|p\d\d|quantile|avg|max_|min_)(_|$)"
)
TAKEN_LABELS = {"le", "quantile", "process", "job", "instance"}
"""Labels that Prometheus sets, and `process`, which the page adds."""


def complaints(metric: Metric) -> Iterator[str]:
    """The faults of a metric, by the rules of `promtool check metrics` and Prometheus' naming page."""
    yield from name_complaints(metric)
    if not re.fullmatch(r"[A-Z0-9].{20,150}\.", metric.help) or metric.help.lower().startswith(
        metric.name.replace("_", " ")
    ):
        yield "no sentence as help"
    if len(set(metric.labels)) != len(metric.labels) or set(metric.labels) & TAKEN_LABELS:
        yield "labels that are taken"
    if not all(re.fullmatch(r"[a-z][a-z_]*", label) for label in metric.labels):
        yield "labels that are not snake case"


def name_complaints(metric: Metric) -> Iterator[str]:
    name = metric.name
    if not re.fullmatch(r"(cns|process)_[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        yield "not snake case with the prefix of the service"
    if (metric.kind == "counter") != name.endswith("_total"):
        yield "`_total` is for counters, and for all of them"
    if name.endswith(("_count", "_sum", "_bucket", "_info")) and name != "cns_build_info":
        yield "a reserved suffix"
    if NOT_BASE_UNITS.search(name):
        yield "not a base unit"
    if re.search(r"_(seconds|bytes)_(?!total$)", name) and not name.startswith("process_"):
        yield "the unit does not stand last"
    if metric.kind == "histogram" and not name.endswith(("_seconds", "_bytes")):
        yield "a histogram without a unit"
    if re.search(r"(counter|gauge|histogram|metric)", name):
        yield "its type in its name"


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_keeps_the_conventions(metric: Metric) -> None:
    assert list(complaints(metric)) == []


def test_two_processes_on_a_page_that_prometheus_reads() -> None:
    stats = Stats()
    stats.delivery_times.observe(0.007, "http", "first")
    stats.add(DELIVERIES, protocol="http")
    own = [*stats.samples(), *process_samples("1.2.3"), QUARANTINE_JOBS.sample(2)]
    text = page([sample.labelled("process", name) for name in ("worker-1", "worker-2") for sample in own])
    families = {family.name: family for family in text_string_to_metric_families(text)}
    lines = text.splitlines()
    assert len(lines) == len(set(lines)), "a series stands twice"
    for family in families.values():
        metric = METRICS[f"{family.name}_total" if family.type == "counter" else family.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le", "process"} == set(metric.labels), sample
    assert {family.samples[0].labels["version"] for family in (families["cns_build_info"],)} == {"1.2.3"}
    resident = families["process_resident_memory_bytes"].samples[0].value
    assert 1e6 < resident < 1e11
    assert families["process_open_fds"].samples[0].value <= os.sysconf("SC_OPEN_MAX")


def test_counters_with_known_labels_begin_at_0() -> None:
    found = {(sample.name, sample.labels): sample.value for sample in Stats().samples()}
    assert set(found.values()) == {0}
    for name, labels in [
        ("cns_deliveries_total", {"protocol": "email-json"}),
        ("cns_notifications_dropped_total", {"cause": "subscription_gone"}),
        ("cns_notifications_dropped_total", {"cause": "permanent:mail_rate"}),
        ("cns_notifications_dropped_total", {"cause": "dead_letter_queue_refused:queue"}),
        ("cns_notifications_dead_lettered_total", {"cause": "deadline_while_open"}),
        ("cns_retries_scheduled_total", {"phase": "pre-backoff"}),
        ("cns_jobs_quarantined_total", {"queue": "endpoint-jobs"}),
    ]:
        assert (name, tuple(labels.items())) in found


def test_drops_are_recent_for_ten_minutes_unless_the_recipient_is_gone_or_muted() -> None:
    stats = Stats()
    assert stats.dropped_recently(0).value == 0
    for cause in ("subscription_gone", "permanent:opted_out", "permanent:not_verified", "permanent:endpoint_disabled"):
        stats.count_drop(cause)
    assert stats.dropped_recently(1_000).value == 0
    stats.count_drop("spent:status", 2)
    assert stats.dropped_recently(2_000).value == 2
    stats.count_drop("dead_letter_queue_refused:queue")
    assert [stats.dropped_recently(ms).value for ms in (300_000, 601_999, 602_000, 899_999, 900_000)] == [3, 3, 1, 1, 0]


def test_counters_add_up() -> None:
    counters = Counters()
    counters.start(API_CALLS, operation=("Publish", "Subscribe"))
    counters.add(API_CALLS, 2, operation="Publish")
    counters.add(API_CALLS, operation="Publish")
    counters.add(API_CALLS, 0, operation="SendMessage")
    assert {dict(sample.labels)["operation"]: sample.value for sample in counters.samples()} == {
        "Publish": 3,
        "Subscribe": 0,
    }


def test_a_histogram_has_each_bound_the_count_and_the_sum() -> None:
    samples = DELIVERY_SECONDS.histogram([0.1, 1.0], [3, 0, 2], 7.5, (("protocol", "sqs"), ("attempt", "first")))
    found = {dict(sample.labels).get("le", sample.name): sample.value for sample in samples}
    assert found == {"0.1": 3, "1.0": 3, "+Inf": 5, "cns_delivery_seconds_count": 5, "cns_delivery_seconds_sum": 7.5}


def test_what_a_process_of_another_version_counts_is_shown() -> None:
    (family,) = text_string_to_metric_families(page([Sample("cns_news", 3, (("a", "b"),))]))
    assert (family.name, family.type, family.documentation) == ("cns_news", "unknown", FOREIGN_HELP)
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"a": "b"}, 3)]


def test_each_metric_is_counted_somewhere() -> None:
    names = {value.name: constant for constant, value in vars(catalogue).items() if isinstance(value, Metric)}
    assert set(names) == set(METRICS)
    used: set[str] = set()
    for path in [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]:
        if path.name != "catalogue.py":
            used |= {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert [name for name, constant in names.items() if constant not in used and not name.startswith("process_")] == []
    assert {sample.name for sample in process_samples("1")} - {"cns_build_info"} == {
        name for name in names if name.startswith("process_")
    }


def test_the_operations_guide_has_every_metric_with_its_labels() -> None:
    table = TEXT.partition("| metric | |")[2].partition("\n\n")[0]
    documented = re.findall(r"`((?:cns|process)_\w+)(?:\{([\w,]+)\})?`", table)
    assert {name: tuple(filter(None, labels.split(","))) for name, labels in documented if name in METRICS} == {
        name: metric.labels for name, metric in METRICS.items()
    }
    assert {name for name, _ in documented} <= set(METRICS)
