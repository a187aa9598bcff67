"""FIFO queues: a new delay, and rates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs


@pytest.fixture
async def url(sqs: Sqs) -> str:
    return await sqs.queue("q.fifo", ContentBasedDeduplication="true", VisibilityTimeout="10")


async def send(sqs: Sqs, url: str, *bodies: str, group: str = "g") -> None:
    for body in bodies:
        await sqs.send(url, body, MessageGroupId=group)


# -- delays -----------------------------------------------------------------------------------------------------------


async def set_delay(sqs: Sqs, url: str, seconds: int) -> None:
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": str(seconds)})


@pytest.mark.spec("fifo.delay-is-retroactive")
@pytest.mark.parametrize(("before_s", "after_s"), [(0, 60), (900, 60), (60, 0)])
async def test_a_new_delay_applies_to_existing_messages(sqs: Sqs, url: str, before_s: int, after_s: int) -> None:
    await set_delay(sqs, url, before_s)
    await send(sqs, url, "1", "2")
    sqs.advance(20)
    await set_delay(sqs, url, after_s)
    if after_s:
        assert await sqs.receive(url) == []
        assert await sqs.counts(url) == (0, 0, 2)
        sqs.advance(40)
    assert await sqs.counts(url) == (2, 0, 0)
    assert await sqs.bodies(url) == ["1", "2"]


# -- no limit ---------------------------------------------------------------------------------------------------------

HIGH_THROUGHPUT = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
CALLS = 310


@pytest.mark.spec("fifo.no-rate-limit")
@pytest.mark.parametrize("attributes", [{}, HIGH_THROUGHPUT])
async def test_no_rate_is_enforced(sqs: Sqs, attributes: dict[str, Any]) -> None:
    url = await sqs.queue("many.fifo", ContentBasedDeduplication="true", **attributes)
    await asyncio.gather(*[send(sqs, url, str(number)) for number in range(CALLS)])  # the test clock is stopped
    assert await sqs.counts(url) == (CALLS, 0, 0)
