"""Fair queues: standard queues whose messages have a group, which names a tenant."""

from __future__ import annotations

import pytest

from cns_common.durations import HOUR_S
from tests.integration.cqs.sqs import Sqs

NOISY_IN_FLIGHT_MIN = 30


async def send(sqs: Sqs, url: str, tenant: str, n: int = 1) -> None:
    entries = [{"Id": str(number), "MessageBody": tenant, "MessageGroupId": tenant} for number in range(n)]
    for start in range(0, n, 10):
        await sqs("SendMessageBatch", QueueUrl=url, Entries=entries[start : start + 10])


async def hold(sqs: Sqs, url: str, tenant: str, n: int) -> None:
    """Put this many messages of a tenant in flight."""
    await send(sqs, url, tenant, n)
    for start in range(0, n, 10):
        held = await sqs.bodies(url, min(10, n - start), VisibilityTimeout=HOUR_S)
        assert set(held) == {tenant}


@pytest.mark.spec("fair.group-returned", "fair.mixed", "fair.no-sequence")
async def test_the_tenant_is_shown(sqs: Sqs) -> None:
    url = await sqs.queue()
    sent = [await sqs.send(url, "with", MessageGroupId="tenant"), await sqs.send(url, "without")]
    assert {name for answer in sent for name in answer} == {"MessageId", "MD5OfMessageBody"}
    received = await sqs.receive(url, AttributeNames=["MessageGroupId", "SequenceNumber", "MessageDeduplicationId"])
    assert {message["Body"]: message["Attributes"] for message in received} == {
        "with": {"MessageGroupId": "tenant"},
        "without": {},
    }


@pytest.mark.spec("fair.no-lock", "fair.no-dedup")
async def test_a_tenant_is_neither_locked_nor_deduplicated(sqs: Sqs) -> None:
    url = await sqs.queue()
    await send(sqs, url, "a", 5)
    assert await sqs.bodies(url, 2) == ["a"] * 2
    assert await sqs.bodies(url) == ["a"] * 3


@pytest.mark.spec("fair.noisy-in-flight", "fair.quiet-first", "fair.noisy-served")
@pytest.mark.parametrize(
    ("held", "order"), [(NOISY_IN_FLIGHT_MIN - 1, ["loud", "quiet"]), (NOISY_IN_FLIGHT_MIN, ["quiet", "loud"])]
)
async def test_a_noisy_tenant_waits(sqs: Sqs, held: int, order: list[str]) -> None:
    url = await sqs.queue()
    await hold(sqs, url, "loud", held)
    await send(sqs, url, "loud")
    sqs.advance(1)
    await send(sqs, url, "quiet")
    assert await sqs.bodies(url, 1) + await sqs.bodies(url, 1) == order


@pytest.mark.spec("fair.quiet-first")
async def test_a_quiet_tenant_overtakes_a_backlog(sqs: Sqs) -> None:
    url = await sqs.queue()
    await hold(sqs, url, "loud", 2 * NOISY_IN_FLIGHT_MIN)
    await send(sqs, url, "loud", 300)
    sqs.advance(1)
    await send(sqs, url, "quiet", 3)
    assert set(await sqs.bodies(url, 2)) == {"quiet"}
