"""The service under acceptance test, in either form: clients that others wrote, its pages, and its log."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lab.harness.waiting import PATIENCE_S

BIN = Path(sys.executable).parent
REGION = "eu-central-1"
_METRIC = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")

METRICS_TOKEN = "the-token-of-the-tests"
"""CNS_METRICS_TOKEN of all services under test."""
OBSERVER = {"authorization": f"Bearer {METRICS_TOKEN}"}

Samples = dict[tuple[str, frozenset[str]], float]
"""Values by name and labels, the labels as text."""


@dataclass(frozen=True, kw_only=True)
class Service(ABC):
    """`environment` holds the variables that a user exports."""

    url: str
    ca_file: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @abstractmethod
    def said(self) -> str:
        """The output of all its processes."""

    @abstractmethod
    def cns(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `cns` command on this service to its end."""

    @abstractmethod
    def copies(self, text: str) -> int:
        """The number of times that the store holds the text."""

    @abstractmethod
    def delivery_logs(self, *words: str) -> str:
        """The output of `cns logs`, over all workers."""

    # -- clients ------------------------------------------------------------------------------------------------------

    def client(self, name: str, **options: Any) -> Any:
        """A client of boto3. `key` and `secret` are those of the first account by default."""
        return boto3.client(
            name,
            endpoint_url=options.pop("url", self.url),
            region_name=options.pop("region_name", REGION),
            aws_access_key_id=options.pop("key", self.environment.get("AWS_ACCESS_KEY_ID", "123456789012")),
            aws_secret_access_key=options.pop("secret", self.environment.get("AWS_SECRET_ACCESS_KEY", "none")),
            verify=None if self.ca_file is None else str(self.ca_file),
            config=Config(retries={"total_max_attempts": options.pop("tries", 1)}, **options),
        )

    def aws(self, *words: str) -> Any:
        """Run the AWS CLI. Without the option its version 1 would send SQS calls to AWS itself."""
        done = subprocess.run(
            [BIN / "aws", "--endpoint-url", self.url, *words],
            env={**os.environ, **self.environment, "AWS_PAGER": "", "AWS_DEFAULT_REGION": REGION},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    # -- pages --------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> tuple[int, bytes]:
        """A page; health and metrics with names."""
        observes = path in ("/health", "/ready", "/metrics")
        return fetch(self.url + path, headers=OBSERVER if observes else None, ca_file=self.ca_file)

    def health(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.get("/health")[1])
        return report

    def is_ready(self) -> bool:
        try:
            return self.get("/ready")[0] == 200
        except OSError:
            return False

    def samples(self) -> Samples:
        """The current metrics."""
        return read_samples(self.get("/metrics")[1].decode())

    def metric(self, name: str, **labels: str) -> float:
        """The sum of one metric's samples that have these labels."""
        return total(self.samples(), name, **labels)

    def polls_waiting(self) -> float:
        """Clients' long polls that wait now. Those of workers are not counted."""
        return self.metric("cns_long_polls_waiting", caller="client")

    def advance(self, seconds: float) -> None:
        """Advance the test clock. Returns when all processes have advanced."""
        body = json.dumps({"advance_s": seconds}).encode()
        status, answer = fetch(
            self.url + "/_cns/clock", body, {"content-type": "application/json"}, ca_file=self.ca_file
        )
        assert status == 200, answer

    def events(self, event: str, **members: object) -> list[dict[str, Any]]:
        """The log events with this name and these members."""
        logged = [json.loads(line) for line in self.said().splitlines() if line.startswith('{"')]
        return [entry for entry in logged if members.items() | {("event", event)} <= _hashable(entry).items()]


def total(samples: Samples, name: str, **labels: str) -> float:
    wanted = {f'{label}="{value}"' for label, value in labels.items()}
    return sum(value for (found, has), value in samples.items() if found == name and wanted <= has)


def read_samples(page: str) -> Samples:
    matches = [_METRIC.fullmatch(line) for line in page.splitlines()]
    return {(found[1], frozenset((found[2] or "").split(","))): float(found[3]) for found in matches if found}


def fetch(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str | None = None,
    ca_file: Path | None = None,
    timeout_s: float = 10.0,
) -> tuple[int, bytes]:
    """Status and body of the response, also of an error."""
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)
    context = ssl.create_default_context(cafile=ca_file) if ca_file else None
    try:
        with urllib.request.urlopen(request, timeout=timeout_s, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _hashable(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if not isinstance(value, dict | list)}


def error_of(call: Any, **members: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(**members)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]
