"""A service with archives over a real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.sns.archives.replay_fixture import ReplayFixture, open_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ReplayFixture]:
    async with open_site(tmp_path) as site:
        yield site
