"""The manifests of deploy/kubernetes: valid by Kubernetes' schemas, and of one mind with the service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import cns as package
from cns_common.configuration.settings import Settings
from cns_common.metrics.catalogue import METRICS
from cns_common.worker_roles import ALL_ROLES
from tests.promql import adapter_rules, rules

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
BASE, AUTOSCALING, SINGLE = ROOT / "base", ROOT / "autoscaling", ROOT / "single"
CHART = ROOT.parent / "helm" / "cns"
VERSIONS = ("1.30", "1.37")
"""The oldest and the newest that the manifests are meant for."""
DRAIN_S = 20


def documents(directory: Path) -> list[dict[str, Any]]:
    """All resources that the kustomization of a directory names there."""
    names = [name for name in kustomization(directory)["resources"] if name.endswith(".yaml")]
    return [document for name in names for document in yaml.safe_load_all((directory / name).read_text())]


def kustomization(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((directory / "kustomization.yaml").read_text())
    return found


def named(kind: str, directory: Path = BASE) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in documents(directory) if each["kind"] == kind}


def config(directory: Path = BASE) -> dict[str, str]:
    (made,) = kustomization(directory)["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in made["literals"])


def pods() -> dict[str, dict[str, Any]]:
    found = {**named("Deployment"), **named("Job")}
    return {name: each["spec"]["template"] for name, each in found.items()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("directory", [BASE, AUTOSCALING, SINGLE], ids=lambda path: path.name)
def test_each_resource_is_valid(directory: Path, version: str) -> None:
    for document in documents(directory):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("directory", [BASE, AUTOSCALING, SINGLE], ids=lambda path: path.name)
def test_the_kustomization_names_each_file(directory: Path) -> None:
    files = {path.name for path in directory.glob("*.yaml")} - {"kustomization.yaml", "prometheus-adapter.yaml"}
    assert {name for name in kustomization(directory)["resources"] if name.endswith(".yaml")} == files


@pytest.mark.parametrize(("directory", "store"), [(BASE, "cassandra"), (SINGLE, "embedded")])
def test_settings_are_settings(directory: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in config(directory).items():
        assert name.removeprefix("CNS_").lower() in Settings.model_fields, name
        monkeypatch.setenv(name, value)
    assert Settings(data=tmp_path).store == store


def test_all_have_the_version_of_the_service() -> None:
    tags = [image["newTag"] for directory in (BASE, SINGLE) for image in kustomization(directory)["images"]]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {*tags, chart["version"], chart["appVersion"]} == {package.__version__}


def test_the_values_of_the_chart_are_those_of_its_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    _same_names(values, schema)


def _same_names(values: dict[str, Any], schema: dict[str, Any]) -> None:
    assert set(values) == set(schema["properties"]) - {"global"}
    for name, value in values.items():
        if "properties" in schema["properties"][name]:
            _same_names(value, schema["properties"][name])


def test_nobody_connects_to_workers() -> None:
    (open_to_all,) = [each["spec"] for each in named("NetworkPolicy").values() if each["spec"].get("ingress")]
    assert open_to_all["podSelector"]["matchLabels"] == {"app.kubernetes.io/component": "api"}
    (closed,) = [each["spec"] for each in named("NetworkPolicy").values() if not each["spec"].get("ingress")]
    (expression,) = closed["podSelector"]["matchExpressions"]
    components = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods().values()}
    assert components == {"api", *expression["values"]}


def test_one_pod_has_one_volume_and_time_to_stop() -> None:
    spec = named("StatefulSet", SINGLE)["cns"]["spec"]
    assert spec["replicas"] == 1
    assert config(SINGLE)["CNS_DATA"].startswith("/data/")
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > 2 * DRAIN_S


def test_pods_have_no_variables_that_are_not_settings() -> None:
    for pod in pods().values():
        assert pod["spec"]["enableServiceLinks"] is False
        (container,) = pod["spec"]["containers"]
        assert [next(iter(source)) for source in container["envFrom"]] == ["configMapRef", "secretRef"]


def test_there_are_workers_of_each_role() -> None:
    commands = [each["spec"]["containers"][0].get("command", []) for each in pods().values()]
    roles = [command[command.index("--role") + 1] for command in commands if "--role" in command]
    assert sorted(roles) == sorted(ALL_ROLES)


def test_selectors_find_their_pods() -> None:
    of_pods = [pod["metadata"]["labels"] for pod in pods().values()]
    for each in named("Deployment").values():
        assert each["spec"]["selector"]["matchLabels"] == each["spec"]["template"]["metadata"]["labels"]
    selectors = [each["spec"]["selector"]["matchLabels"] for each in named("PodDisruptionBudget").values()]
    selectors.append(named("Service")["cns-api"]["spec"]["selector"])
    assert [selector for selector in selectors if selector not in of_pods] == []
    assert len(named("PodDisruptionBudget")) == 1 + len(ALL_ROLES)


def test_a_stop_has_its_time() -> None:
    """A pod is killed after its grace period: 20 s of sends in flight, or the delay and 10 s of calls in progress."""
    delay_s = float(config()["CNS_STOP_DELAY_S"])
    for name, pod in pods().items():
        grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
        assert grace_s > (delay_s + DRAIN_S if name == "cns-api" else DRAIN_S)
    probe = named("Deployment")["cns-api"]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < delay_s


def test_scalers_use_metrics_that_there_are() -> None:
    served = {rule.name for rule in adapter_rules()}
    for rule in adapter_rules():
        (series,) = rule.expression.series
        assert f'{{__name__="{series.name}",' in rule.series_query
        metric = METRICS[series.name.removesuffix("_bucket")]
        assert metric.kind == ("histogram" if series.name.endswith("_bucket") else "gauge")
        assert {*series.labels, *rule.expression.labels} <= {*metric.labels, "le", "namespace"}
    scalers = named("HorizontalPodAutoscaler", AUTOSCALING)
    used = {
        metric["external"]["metric"]["name"]
        for scaler in scalers.values()
        for metric in scaler["spec"]["metrics"]
        if metric["type"] == "External"
    }
    assert used == served
    targets = {(scaler["spec"]["scaleTargetRef"]["kind"], name) for name, scaler in scalers.items()}
    assert targets <= {("Deployment", name) for name in named("Deployment")} | {("StatefulSet", "cassandra")}
    assert all(scaler["spec"]["scaleTargetRef"]["name"] == name for name, scaler in scalers.items())


def test_storage_is_scaled_by_its_size_and_loses_no_node() -> None:
    """Kubernetes adds nodes; the rules of Prometheus, with the same size of a node, say when there is one too many."""
    scaler = named("HorizontalPodAutoscaler", AUTOSCALING)["cassandra"]["spec"]
    (metric,) = scaler["metrics"]
    assert scaler["minReplicas"] == int(config()["CNS_CASSANDRA_REPLICATION"])
    assert scaler["behavior"]["scaleDown"]["selectPolicy"] == "Disabled"
    quantity = metric["external"]["target"]["averageValue"]
    assert quantity.endswith("Gi")
    node_bytes = int(quantity.removesuffix("Gi")) * 2**30
    alerts = {rule["alert"]: rule["expr"] for rule in rules() if "alert" in rule}
    for name in ("CnsCassandraFull", "CnsCassandraNodesSpare"):
        assert re.findall(r"\d{9,}", alerts[name]) == [str(node_bytes)]
