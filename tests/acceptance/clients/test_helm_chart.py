"""deploy/helm/cns, rendered by Helm itself: valid by Kubernetes' schemas, and the same as deploy/kubernetes says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cns_common.configuration.settings import Settings
from tests.clients.installing import installed
from tests.static import test_kubernetes as kustomized

CHART = kustomized.CHART
RELEASE = {"app.kubernetes.io/name": "cns", "app.kubernetes.io/instance": "mine"}
COMPONENT = "app.kubernetes.io/component"
OPTIONS: dict[str, dict[str, Any]] = {
    "cluster": {},
    "scaled": {"autoscaling": {"enabled": True, "cassandra": True}},
    "closed": {
        "tls": {"secretName": "cert"},
        "networkPolicy": {
            "from": [{"namespaceSelector": {}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
        "ingress": {"enabled": True, "className": "nginx", "host": "cns.example.com", "tlsSecretName": "site"},
        "service": {"type": "LoadBalancer"},
        "pod": {"nodeSelector": {"disk": "ssd"}},
        "resources": {"api": {"limits": {"memory": "2Gi"}}},
    },
    "single": {"mode": "single", "volume": {"size": "5Gi", "storageClassName": "fast"}, "tls": {"secretName": "cert"}},
}


def helm(tmp_path: Path, values: dict[str, Any], version: str = "1.30") -> subprocess.CompletedProcess[str]:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    words = ("template", "mine", str(CHART), "--namespace", "prod", "--kube-version", version, "--values", str(file))
    return subprocess.run([*installed("helm"), *words], capture_output=True, text=True, check=False)


def rendered(tmp_path: Path, values: dict[str, Any], version: str = "1.30") -> list[dict[str, Any]]:
    done = helm(tmp_path, values, version)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(resources: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in resources if each["kind"] == kind}


def pods(resources: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    kinds = ("Deployment", "StatefulSet", "Job")
    return {name: each for kind in kinds for name, each in of_kind(resources, kind).items()}


def container(resource: dict[str, Any]) -> dict[str, Any]:
    (only,) = resource["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("version", kustomized.VERSIONS)
@pytest.mark.parametrize("name", OPTIONS)
def test_each_resource_is_valid_and_of_the_release(tmp_path: Path, name: str, version: str) -> None:
    resources = rendered(tmp_path, OPTIONS[name], version)
    for resource in resources:
        kubernetes_validate.validate(resource, version, strict=True)
        assert resource["metadata"]["namespace"] == "prod"
        assert resource["metadata"]["labels"].items() >= RELEASE.items()
    of_pods = [each["spec"]["template"]["metadata"]["labels"] for each in pods(resources).values()]
    for kind in ("Service", "Deployment", "StatefulSet", "PodDisruptionBudget"):
        for each in of_kind(resources, kind).values():
            selector = each["spec"]["selector"]
            selector = selector if kind == "Service" else selector["matchLabels"]
            assert selector.items() > RELEASE.items(), "no pod of another release"
            assert sum(labels.items() >= selector.items() for labels in of_pods) == 1


@pytest.mark.parametrize(
    ("name", "directories"),
    [
        ("cluster", [kustomized.BASE]),
        ("scaled", [kustomized.BASE, kustomized.AUTOSCALING]),
        ("single", [kustomized.SINGLE]),
    ],
)
def test_it_has_what_kustomize_has(tmp_path: Path, name: str, directories: list[Path]) -> None:
    wanted = {(each["kind"], each["metadata"]["name"]) for path in directories for each in kustomized.documents(path)}
    found = {(each["kind"], each["metadata"]["name"]) for each in rendered(tmp_path, OPTIONS[name])}
    assert found == {*wanted, ("ConfigMap", "cns")}


@pytest.mark.parametrize("name", ["cluster", "single"])
def test_the_configuration_is_read_by_the_service(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"CNS_LOG_LEVEL": "debug", "CNS_STOP_DELAY_S": 5, "CNS_QUOTA_TOPICS": 2_000_000, "CNS_EVENTS": False}
    resources = rendered(tmp_path, {"mode": name, "config": given})
    data = of_kind(resources, "ConfigMap")["cns"]["data"]
    assert (data["CNS_LOG_LEVEL"], data["CNS_STOP_DELAY_S"]) == ("debug", "5")
    assert (data["CNS_QUOTA_TOPICS"], data["CNS_EVENTS"]) == ("2000000", "off"), "as written, not as YAML reads it"
    base = kustomized.config(kustomized.SINGLE if name == "single" else kustomized.BASE)
    changed = {"CNS_PUBLIC_URL", *given}
    assert {key: value for key, value in data.items() if key not in changed} == {
        key: value for key, value in base.items() if key not in changed
    }
    assert ".prod.svc:6059" in data["CNS_PUBLIC_URL"]
    for key, value in data.items():
        monkeypatch.setenv(key, value)
    assert Settings(data=tmp_path).stop_delay_s == 5


def test_the_schema_is_applied_before_there_is_a_config_map(tmp_path: Path) -> None:
    resources = rendered(tmp_path, {"secretName": "mine"})
    job = of_kind(resources, "Job")["cns-schema"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    data = of_kind(resources, "ConfigMap")["cns"]["data"]
    assert {each["name"]: each["value"] for each in container(job)["env"]} == data
    assert container(job)["envFrom"] == [{"secretRef": {"name": "mine"}}]


def test_tls_is_in_every_pod_and_its_probes(tmp_path: Path) -> None:
    resources = rendered(tmp_path, OPTIONS["closed"])
    for each in pods(resources).values():
        assert {"name": "tls", "secret": {"secretName": "cert"}} in each["spec"]["template"]["spec"]["volumes"]
        assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in container(each)["volumeMounts"]
        assert each["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    api = container(of_kind(resources, "Deployment")["cns-api"])
    probes = [api[name]["httpGet"]["scheme"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert probes == ["HTTPS"] * 3
    assert api["resources"]["limits"] == {"memory": "2Gi"}
    assert api["resources"]["requests"]["memory"] == "256Mi", "what is not named stays"
    data = of_kind(resources, "ConfigMap")["cns"]["data"]
    assert (data["CNS_TLS_CERT"], data["CNS_PUBLIC_URL"]) == ("/tls/tls.crt", "https://cns-api.prod.svc:6059")
    assert of_kind(resources, "Service")["cns-api"]["spec"]["type"] == "LoadBalancer"
    policies = of_kind(resources, "NetworkPolicy").values()
    assert all(policy["spec"]["egress"] and "Egress" in policy["spec"]["policyTypes"] for policy in policies)


def test_scalers_own_the_number_of_replicas(tmp_path: Path) -> None:
    resources = rendered(tmp_path, OPTIONS["scaled"])
    scaled = {name for name in of_kind(resources, "HorizontalPodAutoscaler") if name.startswith("cns")}
    for name, each in of_kind(resources, "Deployment").items():
        assert ("replicas" in each["spec"]) is (name not in scaled), name
    resources = rendered(tmp_path, {"replicas": {"consumer": 7}})
    assert of_kind(resources, "Deployment")["cns-consumer"]["spec"]["replicas"] == 7


def test_a_change_of_the_configuration_replaces_the_pods(tmp_path: Path) -> None:
    def digest(config: dict[str, str]) -> str:
        api = of_kind(rendered(tmp_path, {"config": config}), "Deployment")["cns-api"]
        return str(api["spec"]["template"]["metadata"]["annotations"]["cns/config"])

    assert digest({}) != digest({"CNS_LOG_LEVEL": "debug"})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "both"}, "mode"),
        ({"replica": {"api": 3}}, "replica"),
        ({"replicas": {"apis": 3}}, "apis"),
        ({"config": {"CNS_MASTER_KEY": "x"}}, "CNS_MASTER_KEY"),
        ({"config": {"CNS_QUEUE_SECRET": "x"}}, "CNS_QUEUE_SECRET"),
        ({"config": {"CNS_SMTP_URL": "smtp://user:word@relay"}}, "CNS_SMTP_URL"),
        ({"config": {"CNS_REDIS": "a=redis://one/0 b=redis://:word@two/0"}}, "CNS_REDIS"),
        ({"config": {"CNS_REMOTE_QUEUES": '[{"key_id": "x", "secret": "y"}]'}}, "CNS_REMOTE_QUEUES"),
        ({"tls": None}, "tls"),
        ({"ingress": {"enabled": True}}, "ingress.host is needed"),
    ],
)
def test_wrong_values_are_refused_by_name(tmp_path: Path, values: dict[str, Any], said: str) -> None:
    done = helm(tmp_path, values)
    assert done.returncode != 0
    assert said in done.stderr
