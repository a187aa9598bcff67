"""FIFO queues: receives repeated under their attempt id."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.sqs import Sqs

WINDOW_S = 300


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


@pytest.mark.spec("attempt.hides-anew")
async def test_hidden_anew(sqs: Sqs, url: str) -> None:
    await attempt(sqs, url)
    sqs.advance(29)
    await attempt(sqs, url)
    sqs.advance(29)
    assert await sqs.receive(url) == []
    sqs.advance(1)
    assert await sqs.bodies(url) == ["1", "2", "3"]


@pytest.mark.spec("attempt.other-id")
@pytest.mark.parametrize("members", [{}, {"ReceiveRequestAttemptId": "b"}])
async def test_others_get_nothing_of_it(sqs: Sqs, url: str, members: dict[str, Any]) -> None:
    await attempt(sqs, url)
    assert await sqs.receive(url, **members) == []


@pytest.mark.spec("attempt.after-delete")
async def test_after_a_delete_it_is_new(sqs: Sqs, url: str) -> None:
    first, second = await attempt(sqs, url)
    await sqs.delete(url, first)
    assert await attempt(sqs, url) == []  # the group is locked
    await sqs.delete(url, second)
    assert [message["Body"] for message in await attempt(sqs, url)] == ["3"]


@pytest.mark.spec("attempt.after-change")
@pytest.mark.parametrize(("timeout_s", "bodies"), [(0, ["1"]), (30, [])])
async def test_after_a_change_it_is_new(sqs: Sqs, url: str, timeout_s: int, bodies: list[str]) -> None:
    first, _ = await attempt(sqs, url)
    await sqs.hide(url, first, timeout_s)
    again = await attempt(sqs, url)
    assert [message["Body"] for message in again] == bodies
    assert first["ReceiptHandle"] not in [message["ReceiptHandle"] for message in again]


@pytest.mark.spec("attempt.without-timeout")
async def test_without_a_timeout_it_is_new(sqs: Sqs, url: str) -> None:
    (first,) = await attempt(sqs, url, 1, VisibilityTimeout=0)
    (again,) = await attempt(sqs, url, 1, VisibilityTimeout=0, AttributeNames=["All"])
    assert (first["Body"], again["Body"]) == ("1", "1")
    assert first["ReceiptHandle"] != again["ReceiptHandle"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    assert len(await attempt(sqs, url)) == 2
    assert await attempt(sqs, url, VisibilityTimeout=0) == []  # the group is locked


@pytest.mark.spec("attempt.window")
@pytest.mark.parametrize(("after_s", "bodies"), [(WINDOW_S - 1, ["1", "2"]), (WINDOW_S, [])])
async def test_five_minutes(sqs: Sqs, url: str, after_s: int, bodies: list[str]) -> None:
    await attempt(sqs, url, VisibilityTimeout=2 * WINDOW_S)
    sqs.advance(after_s)
    assert [message["Body"] for message in await attempt(sqs, url, VisibilityTimeout=2 * WINDOW_S)] == bodies
