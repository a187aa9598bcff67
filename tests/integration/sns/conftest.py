"""A notification service called directly, for the tests that need no wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import Rig, open_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas()) as rig:
        yield rig
