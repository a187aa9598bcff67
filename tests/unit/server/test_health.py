"""The colour of `/health`, by what the store host says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns_backend.stores.embedded.control import HostState, Report
from cns_server.health import judge_health

WORKER = Report("worker", "worker", (), ())


@pytest.mark.parametrize(
    ("state", "status", "ready", "reason"),
    [
        (HostState("", (WORKER,), ()), "green", True, ""),
        (HostState("", (WORKER,), (), store_full="the disk is full"), "red", True, "the disk is full"),
        (HostState("it has failed", (WORKER,), ()), "red", False, "it has failed"),
        (HostState("", (WORKER,), (), clock_warning="the clock"), "yellow", True, "the clock"),
        (HostState("", (), ()), "red", False, "no worker reports: nothing is delivered"),
    ],
)
def test_colours(tmp_path: Path, state: HostState, status: str, ready: bool, reason: str) -> None:
    health = judge_health(state, tmp_path)
    assert (health.status, health.ready, "; ".join(health.reasons)) == (status, ready, reason)
