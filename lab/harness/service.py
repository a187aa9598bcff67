"""The service under acceptance test, in either form: clients that others wrote, its pages, and its log."""

from __future__ import annotations

import json
import os
import re
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from cns_pytest.http import fetch
from lab.harness.processes import BIN, METRICS_TOKEN, log_events
from lab.harness.waiting import PATIENCE_S

REGION = "eu-central-1"
_METRIC = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")

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
        options = {"connect_timeout": PATIENCE_S, "read_timeout": PATIENCE_S, **options}
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

    def answers(self, page: str) -> bool:
        """Whether the page answers with 200."""
        try:
            return self.get(page)[0] == 200
        except OSError:
            return False

    def is_ready(self) -> bool:
        return self.answers("/ready")

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
        return log_events(self.said(), event, **members)


def total(samples: Samples, name: str, **labels: str) -> float:
    wanted = {f'{label}="{value}"' for label, value in labels.items()}
    return sum(value for (found, has), value in samples.items() if found == name and wanted <= has)


def read_samples(page: str) -> Samples:
    matches = [_METRIC.fullmatch(line) for line in page.splitlines()]
    return {(found[1], frozenset((found[2] or "").split(","))): float(found[3]) for found in matches if found}


def error_of(call: Any, **members: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(**members)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]
