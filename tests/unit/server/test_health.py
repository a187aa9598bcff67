"""The status of `/health`, by the store host's report."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns_backend.stores.contract import Report, ServiceState
from cns_server.health import judge_health

WORKER = Report("worker", "worker", (), ())


@pytest.mark.parametrize(
    ("state", "status", "ready", "reason"),
    [
        (ServiceState("", (WORKER,), ()), "green", True, ""),
        (ServiceState("", (WORKER,), (), store_full="the disk is full"), "red", True, "the disk is full"),
        (ServiceState("it has failed", (WORKER,), ()), "red", False, "it has failed"),
        (ServiceState("", (WORKER,), (), clock_warning="the clock"), "yellow", True, "the clock"),
        (ServiceState("", (), ()), "red", False, "no worker reports: nothing is delivered"),
    ],
)
def test_colours(tmp_path: Path, state: ServiceState, status: str, ready: bool, reason: str) -> None:
    health = judge_health(state, tmp_path)
    assert (health.status, health.ready, "; ".join(health.reasons)) == (status, ready, reason)
