"""The expressions of deploy/prometheus, deploy/grafana and deploy/kubernetes, and which metrics and labels they use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = DEPLOY / "prometheus" / "cns.rules.yml"
ADAPTER = DEPLOY / "kubernetes" / "autoscaling" / "prometheus-adapter.yaml"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
_VARIABLE_RANGE = re.compile(r"\[\$__\w+\]")
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


@dataclass(frozen=True, slots=True)
class Series:
    """A name in an expression, with the labels that it is selected by."""

    name: str
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class Expression:
    """`labels` are those of all `by` and `on`, besides the selectors'."""

    where: str
    text: str
    series: tuple[Series, ...]
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class AdapterRule:
    """A rule of prometheus-adapter: the external metric `name`, with its query filled in for a namespace."""

    name: str
    series_query: str
    expression: Expression


def parse(where: str, text: str) -> Expression:
    """Raises ValueError where Prometheus' grammar does not have it."""
    series: list[Series] = []
    labels: set[str] = set()

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.MatrixSelector):
            node = node.vector_selector
        if isinstance(node, promql_parser.VectorSelector):
            series.append(Series(node.name or "", frozenset(each.name for each in node.matchers.matchers)))
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            labels.update(node.modifier.labels)
        return True

    promql_parser.walk(promql_parser.parse(_VARIABLE_RANGE.sub("[5m]", text)), visit)
    return Expression(where, text, tuple(dict.fromkeys(series)), frozenset(labels))


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def adapter_rules() -> list[AdapterRule]:
    return [
        AdapterRule(
            rule["name"]["as"],
            rule["seriesQuery"],
            parse(rule["name"]["as"], rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="cns"')),
        )
        for rule in yaml.safe_load(ADAPTER.read_text())["externalRules"]
    ]


def rule_expressions() -> Iterator[Expression]:
    for rule in rules():
        yield parse(rule.get("alert") or rule["record"], rule["expr"])


def dashboard_expressions() -> Iterator[Expression]:
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield parse(f"{path.name}: {panel['title']}", target["expr"])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                found = _LABEL_VALUES.fullmatch(variable["query"]["query"])
                assert found is not None, variable
                yield parse(f"{path.name}: {variable['name']}", f"sum by ({found[2]}) ({found[1]})")
