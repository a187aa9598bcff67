"""A notification service with a platform application and an endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.sns.cns_support import Rig
from tests.integration.sns.mobile.sns_mobile import endpoint, open_mobile


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_mobile(tmp_path) as rig:
        yield rig


@pytest.fixture
async def arn(rig: Rig) -> str:
    """A mobile endpoint."""
    return await endpoint(rig)
