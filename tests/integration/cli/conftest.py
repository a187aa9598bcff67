"""Stores, queues and events of a service, which `cns explain` reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.cli.explain_fixture import ExplainFixture, open_site


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[ExplainFixture]:
    async with open_site(tmp_path) as fixture:
        yield fixture


@pytest.fixture
async def arn(fixture: ExplainFixture) -> str:
    """A subscription to the topic."""
    return await fixture.subscribe(1)
