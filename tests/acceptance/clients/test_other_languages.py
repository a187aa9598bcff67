"""The AWS SDKs for JavaScript (v3), Java (v2) and Go (v2), each in a program of its own: `tests/clients`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lab.harness.processes import keys_in
from lab.harness.running import running
from lab.harness.service import REGION
from lab.harness.waiting import PATIENCE_S
from tests.clients.installing import CLIENTS, installed

SCENARIOS = (
    "create-queue",
    "create-queue-again",
    "create-queue-that-differs",
    "get-queue-url",
    "missing-queue",
    "list-queues",
    "set-queue-attributes",
    "queue-tags",
    "purge-queue",
    "delete-queue",
    "message-attributes",
    "message-text",
    "system-attributes",
    "batch-with-a-bad-entry",
    "long-poll",
    "visibility",
    "visibility-batch",
    "delay",
    "invalid-receipt-handle",
    "fair-queue",
    "fifo-order",
    "fifo-deduplication-by-id",
    "fifo-deduplication-by-content",
    "fifo-receive-attempt",
    "dead-letter-queue",
    "move-task",
    "move-task-cancelled",
    "move-task-without-queue",
    "caller-identity",
    "wrong-secret",
    "unknown-key",
    "anonymous",
    "permissions",
    "consumer",
    "topic-attributes",
    "topic-missing",
    "topic-to-queue",
    "topic-to-queue-raw",
    "topic-to-queue-filtered",
    "message-structure",
    "message-attributes-refused",
    "publish-batch",
    "topic-permissions",
    "subscription-attributes",
    "list-subscriptions",
    "confirm-subscription",
    "fifo-topic",
    "fifo-topic-batch",
    "platform-application",
    "sms",
)


@dataclass(frozen=True)
class ProgramResult:
    """A program's output for each scenario, and its exit code."""

    scenarios: dict[str, dict[str, Any]]
    exit_code: int
    complaints: str


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables that name a service, an account's keys, and those of a second account."""
    with running(tmp_path_factory.mktemp("clients") / "data") as service:
        stranger = keys_in(service.cns("account", "create").stdout)
        yield {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            **service.environment,
            "AWS_REGION": REGION,
            "STRANGER_ACCESS_KEY_ID": stranger["key"],
            "STRANGER_SECRET_ACCESS_KEY": stranger["secret"],
        }


SLICE = "javascript"
"""The language that `make test` runs."""


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slice if name == SLICE else ()) for name in CLIENTS]
)
def result(environment: dict[str, str], request: pytest.FixtureRequest) -> ProgramResult:
    """The result of one language's program, which runs once, built first if need be."""
    return _run(installed(request.param), environment)


def test_every_scenario_is_reported(result: ProgramResult) -> None:
    assert tuple(result.scenarios) == SCENARIOS, result.complaints
    assert result.exit_code == (0 if all(each["ok"] for each in result.scenarios.values()) else 1), result.complaints


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(result: ProgramResult, scenario: str) -> None:
    assert scenario in result.scenarios, result.complaints
    assert result.scenarios[scenario]["ok"], result.scenarios[scenario]["error"]


def _run(command: list[str], environment: dict[str, str]) -> ProgramResult:
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return ProgramResult({each["scenario"]: each for each in results}, done.returncode, done.stderr)
