"""A start imports botocore's data, packed or not, without its code, and no library that only pages or workers need."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from cns_common.aws.protocol import shapes

LOAD = """
import sys
from cns_common.aws.protocol.models import load_service
assert all(load_service(name).operations for name in ("sqs", "sns", "sts"))
print(sorted({name.split(".")[0] for name in sys.modules} & {"botocore", "boto3", "urllib3", "jmespath"}))
"""
SERVICE = """
import sys
from cns_cli.service.supervise import MODULES, import_modules
import_modules(MODULES[:2])
late = {"fastapi", "rich", "prometheus_client", "opentelemetry", "cryptography.x509", "cassandra", "redis", "celery"}
print(sorted(late & {*sys.modules}))
"""
PLAIN = b'{"operations":{"Ask":{"input":{"shape":"Q"}}},"shapes":{"Q":{"type":"structure","members":{}}}}'


def test_the_models_are_loaded_without_botocore() -> None:
    answer = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, check=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_the_service_starts_without_what_its_first_call_does_not_need() -> None:
    answer = subprocess.run([sys.executable, "-c", SERVICE], capture_output=True, check=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_a_model_that_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "sqs" / "2012-11-05"
    folder.mkdir(parents=True)
    (folder / "service-2.json").write_bytes(PLAIN)
    spec = ModuleSpec("botocore", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(shapes, "find_spec", lambda _: spec)
    assert [signature.name for signature in shapes.read_signatures("sqs")] == ["Ask"]


def test_without_botocore_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="botocore"):
        shapes.read_signatures("sqs")
