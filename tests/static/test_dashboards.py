"""Alerts, recorded rules and dashboards use metrics and labels of the catalogue only, and are written down."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
import yaml

from cns_common.metrics.catalogue import METRICS
from tests.operator_docs import TEXT, section
from tests.promql import DASHBOARDS, DEPLOY, Expression, dashboard_expressions, parse, rule_expressions, rules

OF_PROMETHEUS = {"up": {"job", "instance"}}
ADDED = {"process", "le", "instance", "job"}
"""Labels of any sample, of a histogram's buckets, and of the scrape."""
EXPRESSIONS = [*rule_expressions(), *dashboard_expressions()]


def labels_of(name: str) -> set[str] | None:
    """The labels that a series may have; None if there is none of this name."""
    if name in OF_PROMETHEUS:
        return OF_PROMETHEUS[name]
    for rule in rules():
        if rule.get("record") == name:
            return set(parse(name, rule["expr"]).labels) - {"le", "process"}
    metric = METRICS.get(name)
    if metric is not None and metric.kind != "histogram":
        return {*metric.labels, *ADDED}
    histogram = METRICS.get(re.sub(r"_(bucket|count|sum)$", "", name) if name not in METRICS else "")
    return None if histogram is None or histogram.kind != "histogram" else {*histogram.labels, *ADDED}


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda each: each.where)
def test_metrics_and_labels_are_of_the_catalogue(expression: Expression) -> None:
    assert expression.series
    known: set[str] = set()
    for series in expression.series:
        labels = labels_of(series.name)
        assert labels is not None, series.name
        assert series.labels <= labels, series
        known |= labels
    assert expression.labels <= known


def test_every_counter_is_used_as_a_rate() -> None:
    for expression in EXPRESSIONS:
        for name in re.findall(r"cns_\w+_total|process_\w+_total", expression.text):
            assert re.search(rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[|sum by \(\w+\) \({name}\)", expression.text), (
                expression
            )


def test_panels_have_a_place_of_their_own() -> None:
    assert [path.stem for path in DASHBOARDS] == ["cluster", "delivery", "queues", "service"]
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        panels = board["panels"]
        assert max(Counter(panel["id"] for panel in panels).values()) == 1
        cells = [
            (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
            for panel in panels
            for x in range(panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["h"])
        ]
        assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24
        assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels)


def test_every_alert_says_how_bad_it_is_and_is_in_the_guide() -> None:
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    assert {rule["labels"]["severity"] for rule in alerts.values()} == {"critical", "warning", "info"}
    assert all(rule["annotations"]["summary"] for rule in alerts.values())
    named = re.findall(r"`(Cns\w+)`", section("Alerts and dashboards"))
    assert sorted(named) == sorted(alerts)


@pytest.mark.parametrize("name", ["scrape.yml", "scrape-kubernetes.yml"])
def test_a_scrape_carries_the_token_under_the_job_name_of_the_rules(name: str) -> None:
    """Without a token `/metrics` is 401."""
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / name).read_text())["scrape_configs"]
    assert job["job_name"] == "cns" and job.get("metrics_path", "/metrics") == "/metrics"
    assert job["authorization"]["type"] == "Bearer" and job["authorization"]["credentials_file"]
    assert f"deploy/prometheus/{name}" in TEXT or f"`{name}`" in TEXT


@pytest.mark.parametrize(
    "path", ["docker-compose.yml", "docker-compose.scaled.yml", "deploy/kubernetes/base/kustomization.yaml"]
)
def test_what_is_shipped_gives_the_api_the_token(path: str) -> None:
    assert "CNS_METRICS_TOKEN" in (DEPLOY.parent / path).read_text()
