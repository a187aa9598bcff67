"""The series that scalers and alerts of the storage query are on the metrics page of a running cluster."""

from __future__ import annotations

from lab.harness.clustered import Clustered
from lab.harness.endpoints import Endpoint
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic
from tests.promql import adapter_rules

OF_THE_SCRAPE = {"namespace"}
"""Labels that Prometheus adds."""


def test_the_metrics_of_all_scalers_are_there(service: Clustered, topic: Topic, endpoint: Endpoint) -> None:
    topic.subscribe("http", endpoint.url)
    topic.publish("hello")
    endpoint.wait(accepted=1)
    wait_until(lambda: not missing(service), lambda: str(missing(service)))


def missing(service: Clustered) -> set[str]:
    """Series of the scalers' queries that the page lacks, or shows without a label that they are selected by."""
    shown: dict[str, set[str]] = {}
    for name, labels in service.samples():
        shown.setdefault(name, set()).update(label.partition("=")[0] for label in labels)
    return {
        series.name
        for rule in adapter_rules()
        for series in rule.expression.series
        if not (series.labels | rule.expression.labels) - OF_THE_SCRAPE <= shown.get(series.name, set())
        or series.name not in shown
    }
