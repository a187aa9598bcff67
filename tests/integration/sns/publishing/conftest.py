"""A topic with a queue subscribed to it."""

from __future__ import annotations

import pytest

from tests.integration.sns.sns_door import SnsDoor


@pytest.fixture
async def topic(sns: SnsDoor) -> str:
    arn = await sns.topic()
    await sns.rig.queue_subscription(arn)
    return arn
