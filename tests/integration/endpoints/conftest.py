"""A sender to HTTP endpoints of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cns.endpoints.http import HttpSender
from tests.integration.endpoints.http_endpoints import sender


@pytest.fixture
async def http_sender() -> AsyncIterator[HttpSender]:
    http_sender = sender()
    yield http_sender
    await http_sender.close()
