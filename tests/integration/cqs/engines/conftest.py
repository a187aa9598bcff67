from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.drivers import drop_keyspaces
from tests.keyspace import aside
from tests.late_calls import tolerate_late_calls


@pytest.fixture(scope="session")
def conformance_keyspace() -> Iterator[None]:
    """The keyspace of the conformance suite's drivers goes at the end."""
    yield
    aside(drop_keyspaces())


@pytest.fixture(autouse=True)
def late_calls_are_tolerated(monkeypatch: pytest.MonkeyPatch) -> None:
    tolerate_late_calls(monkeypatch)
