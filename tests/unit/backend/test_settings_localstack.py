"""The defaults that `compat=localstack` changes, and those it keeps."""

from __future__ import annotations

import pytest

from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import StartError

CHANGED = {
    "port": 4566,
    "auth": "off",
    "cors_origins": ("http://localhost:*", "https://localhost:*", "http://127.0.0.1:*", "https://127.0.0.1:*"),
    "recreate_wait_s": 0,
    "purge_wait_s": 0,
    "sqs_endpoint_strategy": "standard",
}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*CHANGED, "compat"):
        monkeypatch.delenv(f"CNS_{name.upper()}", raising=False)
    monkeypatch.delenv("SQS_ENDPOINT_STRATEGY", raising=False)


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = load_settings().model_dump()
    monkeypatch.setenv("CNS_COMPAT", "localstack")
    compatible = load_settings().model_dump()
    assert {name: compatible[name] for name in CHANGED} == CHANGED
    assert {name for name in plain if plain[name] != compatible[name]} == {"compat", *CHANGED}


def test_what_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_COMPAT", "localstack")
    monkeypatch.setenv("CNS_PORT", "4567")
    monkeypatch.setenv("CNS_PURGE_WAIT_S", "60")
    monkeypatch.setenv("SQS_ENDPOINT_STRATEGY", "domain")
    monkeypatch.setenv("CNS_SQS_ENDPOINT_STRATEGY", "path")
    settings = load_settings()
    assert (settings.port, settings.purge_wait_s, settings.recreate_wait_s) == (4567, 60, 0)
    assert settings.sqs_endpoint_strategy == "path", "our own variable before the other's"


@pytest.mark.parametrize(
    ("compat", "given", "strategy"),
    [
        ("localstack", "domain", "domain"),
        ("localstack", "dynamic", "dynamic"),
        ("localstack", "whatever", "off"),
        ("localstack", "", "off"),
        ("none", "domain", "off"),
    ],
)
def test_localstack_s_own_variable(monkeypatch: pytest.MonkeyPatch, compat: str, given: str, strategy: str) -> None:
    monkeypatch.setenv("CNS_COMPAT", compat)
    monkeypatch.setenv("SQS_ENDPOINT_STRATEGY", given)
    assert load_settings().sqs_endpoint_strategy == strategy


def test_signatures_are_not_to_be_had_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_COMPAT", "localstack")
    monkeypatch.setenv("CNS_AUTH", "on")
    with pytest.raises(StartError, match=r"CNS_COMPAT=localstack: .*leave CNS_AUTH=on out"):
        load_settings()


def test_compat_is_one_of_those_known() -> None:
    with pytest.raises(ValueError, match="compat"):
        Settings(compat="elasticmq")  # type: ignore[arg-type]  # that is the point
