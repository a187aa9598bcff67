"""FIFO queues: the order within a group, and what locks and unlocks a group."""

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


@pytest.mark.spec("fifo.several-of-a-group", "fifo.one-group-first", "fifo.order-of-sends")
async def test_one_group_after_the_other(sqs: Sqs, url: str) -> None:
    for number in range(4):
        await send(sqs, url, f"a{number}", group="a")
        await send(sqs, url, f"b{number}", group="b")
    assert await sqs.bodies(url, 6) == ["a0", "a1", "a2", "a3", "b0", "b1"]


@pytest.mark.spec("fifo.deleted-in-part", "fifo.deleted-all")
@pytest.mark.parametrize("first_deleted", [0, 1, 2])
async def test_locked_until_all_are_deleted(sqs: Sqs, url: str, first_deleted: int) -> None:
    await send(sqs, url, "1", "2", "3", "4")
    held = await sqs.receive(url, 3)
    held.insert(0, held.pop(first_deleted))
    for message in held:
        assert await sqs.receive(url) == []
        await sqs.delete(url, message)
    assert await sqs.bodies(url) == ["4"]


@pytest.mark.spec("fifo.unlocked-by-timeout", "fifo.redelivered-as-sent")
async def test_received_again_as_they_were_sent(sqs: Sqs, url: str) -> None:
    await send(sqs, url, "1", "2", "3")
    before = await sqs.receive(url, 2, AttributeNames=["All"])
    sqs.advance(10)
    after = await sqs.receive(url, AttributeNames=["All"])
    assert [message["Body"] for message in after] == ["1", "2", "3"]
    for old, new in zip(before, after, strict=False):
        assert old["MessageId"] == new["MessageId"]
        for name in ("SequenceNumber", "SentTimestamp", "ApproximateFirstReceiveTimestamp"):
            assert old["Attributes"][name] == new["Attributes"][name]
        assert new["Attributes"]["ApproximateReceiveCount"] == "2"


@pytest.mark.spec("fifo.first-extended")
async def test_the_first_hidden_for_longer_holds_back_the_others(sqs: Sqs, url: str) -> None:
    await send(sqs, url, "1", "2", "3")
    first, *_ = await sqs.receive(url)
    await sqs.hide(url, first, 60)
    sqs.advance(10)
    assert await sqs.receive(url) == []
    sqs.advance(50)
    assert await sqs.bodies(url) == ["1", "2", "3"]


@pytest.mark.spec("fifo.second-extended")
async def test_messages_before_one_hidden_for_longer_are_received(sqs: Sqs, url: str) -> None:
    await send(sqs, url, "1", "2", "3")
    _, second, _ = await sqs.receive(url)
    await sqs.hide(url, second, 60)
    sqs.advance(10)
    (first,) = await sqs.receive(url)
    assert first["Body"] == "1"
    await sqs.delete(url, first)
    assert await sqs.receive(url) == []
    sqs.advance(50)
    assert await sqs.bodies(url) == ["2", "3"]


@pytest.mark.spec("fifo.given-back")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_messages_returned_in_any_order_keep_theirs(sqs: Sqs, url: str, order: tuple[int, ...]) -> None:
    await send(sqs, url, "1", "2", "3")
    held = await sqs.receive(url)
    for place in order:
        await sqs.hide(url, held[place], 0)
    assert await sqs.bodies(url) == ["1", "2", "3"]


@pytest.mark.spec("fifo.visibility-zero-locks-nothing")
async def test_without_a_timeout_nothing_is_locked(sqs: Sqs, url: str) -> None:
    await send(sqs, url, "1", "2", "3")
    assert await sqs.bodies(url, 2, VisibilityTimeout=0) == ["1", "2"]
    assert await sqs.bodies(url) == ["1", "2", "3"]


# -- delays -----------------------------------------------------------------------------------------------------------


async def set_delay(sqs: Sqs, url: str, seconds: int) -> None:
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": str(seconds)})


@pytest.mark.spec("fifo.later-delayed")
async def test_a_delayed_message_does_not_hide_earlier_ones(sqs: Sqs, url: str) -> None:
    await set_delay(sqs, url, 60)
    await send(sqs, url, "1")
    sqs.advance(60)
    await send(sqs, url, "2")
    assert await sqs.counts(url) == (1, 0, 1)
    (first,) = await sqs.receive(url)
    assert first["Body"] == "1"
    await sqs.delete(url, first)
    assert await sqs.receive(url) == []
    sqs.advance(60)
    assert await sqs.bodies(url) == ["2"]


@pytest.mark.spec("fifo.delay-of-the-queue")
async def test_a_message_has_its_queues_delay(sqs: Sqs, url: str) -> None:
    await set_delay(sqs, url, 5)
    await sqs.send(url, "x", MessageGroupId="g", DelaySeconds=0)
    assert await sqs.bodies(url) == []
    sqs.advance(5)
    assert await sqs.bodies(url) == ["x"]


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


@pytest.mark.spec("fifo.delay-is-retroactive")
async def test_a_shorter_delay_wakes_a_poll(sqs: Sqs, url: str) -> None:
    await set_delay(sqs, url, 900)
    await send(sqs, url, "1")
    poll = await sqs.poll(url)
    await set_delay(sqs, url, 0)
    assert [message["Body"] for message in await poll] == ["1"]


# -- purging ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("purge.fifo-unlocks", "purge.all-states", "purge.at-once", "purge.handles")
async def test_a_purge_unlocks_all_groups(sqs: Sqs, url: str) -> None:
    await send(sqs, url, "1", "2")
    (held,) = await sqs.receive(url, 1)
    await sqs("PurgeQueue", QueueUrl=url)
    assert await sqs.counts(url) == (0, 0, 0)
    await send(sqs, url, "3")
    assert await sqs.bodies(url) == ["3"]
    await sqs.delete(url, held)


# -- no limit ---------------------------------------------------------------------------------------------------------

HIGH_THROUGHPUT = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
CALLS = 310


@pytest.mark.spec("fifo.no-rate-limit")
@pytest.mark.parametrize("attributes", [{}, HIGH_THROUGHPUT])
async def test_no_rate_is_enforced(sqs: Sqs, attributes: dict[str, Any]) -> None:
    url = await sqs.queue("many.fifo", ContentBasedDeduplication="true", **attributes)
    await asyncio.gather(*[send(sqs, url, str(number)) for number in range(CALLS)])  # the test clock is stopped
    assert await sqs.counts(url) == (CALLS, 0, 0)
