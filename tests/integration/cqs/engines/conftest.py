from __future__ import annotations

import pytest

from cqs.engines import bdqs, cassieq, cluster, pipes
from cqs.engines.cluster import queue_contents
from lab.harness.waiting import PATIENCE_S
from tests.late_calls import tolerate_late_calls


@pytest.fixture(autouse=True)
def late_calls_are_tolerated(monkeypatch: pytest.MonkeyPatch) -> None:
    tolerate_late_calls(monkeypatch)


@pytest.fixture(autouse=True)
def redis_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that stalls an engine could begin without it, and counts during a fill be refused."""
    monkeypatch.setattr(cluster, "START_S_MAX", PATIENCE_S)
    monkeypatch.setattr(queue_contents, "BY_ROWS_S", PATIENCE_S)


@pytest.fixture(autouse=True)
def no_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    """No background maintenance does a part of what a test counts, or does itself, at a time of its own."""
    for engine in (bdqs, cassieq, pipes):
        monkeypatch.setattr(engine, "MAINTENANCE_INTERVAL_S", 3_600.0)
