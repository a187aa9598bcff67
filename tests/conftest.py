"""What every pytest run does: note which rules of the API its tests showed."""

from __future__ import annotations

import pytest

from tests.spec.record import Recorder


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder([*config.invocation_params.args]), "spec-recorder")
