"""The installed wheel, shared by the tests that run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import wheel


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment of its own; what the service depends on is that of the tests."""
    return wheel.install(tmp_path_factory.mktemp("wheel"))
