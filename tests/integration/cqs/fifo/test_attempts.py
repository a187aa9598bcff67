"""FIFO queues: receives repeated under their attempt id."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs


@pytest.fixture
async def url(sqs: Sqs) -> str:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true", VisibilityTimeout="30")
    for body in ("1", "2", "3"):
        await sqs.send(url, body, MessageGroupId="g")
    return url


async def attempt(sqs: Sqs, url: str, n: int = 2, **members: Any) -> list[dict[str, Any]]:
    return await sqs.receive(url, n, ReceiveRequestAttemptId="a", **members)


@pytest.mark.spec("attempt.same-messages", "attempt.same-handles")
async def test_the_same_answer(sqs: Sqs, url: str) -> None:
    first = await attempt(sqs, url, AttributeNames=["All"])
    sqs.advance(10)
    assert await attempt(sqs, url, AttributeNames=["All"]) == first
    assert await sqs.counts(url) == (1, 2, 0)
    for message in first:
        await sqs.delete(url, message)
    assert await sqs.bodies(url) == ["3"]
