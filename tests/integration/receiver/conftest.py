"""A fault receiver, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.receiver.receiver_support import Client, start_receiver


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with start_receiver() as opened:
        yield opened
