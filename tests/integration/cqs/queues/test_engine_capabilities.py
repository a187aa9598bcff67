"""The service refuses a queue, or a message, that needs more than the queue's engine can do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from cqs.engines.contract import Capabilities
from cqs.internal_queues import check_internal_engine
from tests.integration.cqs.sqs import Sqs, WatchedEngine, open_beside, refused

FULL = WatchedEngine.capabilities
LIMITED = Capabilities(
    fifo=False, update_body=False, atomic_settle=False, max_delay_ms=60_000, exact_counts=False, fair=False
)
DELAY_REFUSED = (
    "InvalidAttributeValue",
    "Invalid value for the parameter DelaySeconds. Reason: The queue's engine delays messages by at most 60 seconds.",
)


class LimitedEngine(WatchedEngine):
    capabilities = LIMITED


@pytest.fixture
async def limited(sqs: Sqs, tmp_path: Path) -> AsyncIterator[Sqs]:
    """The service with a second engine, which can do less."""
    async with open_beside(sqs, tmp_path, limited=LimitedEngine) as (limited, _):
        yield limited


async def test_no_fifo_queue(limited: Sqs) -> None:
    assert await refused(limited.queue("q.fifo", Engine="limited")) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter Engine. Reason: The engine limited has no FIFO queues.",
    )
    await limited.queue("q.fifo", Engine="embedded")


@pytest.mark.parametrize(("required", "lacking"), [("fair", "fair"), ("exact-counts,fair", "exact counts")])
async def test_no_queue_that_requires_what_the_engine_lacks(limited: Sqs, required: str, lacking: str) -> None:
    refusal = (
        "InvalidAttributeValue",
        f"Invalid value for the parameter Requires. Reason: The queue's engine has no {lacking}.",
    )
    assert await refused(limited.queue(Engine="limited", Requires=required)) == refusal
    url = await limited.queue(Engine="limited")
    change = limited("SetQueueAttributes", QueueUrl=url, Attributes={"Requires": required})
    assert await refused(change) == refusal
    able = await limited.queue("able", Engine="embedded", Requires=required)
    assert await limited.attributes(able, "Requires") == {"Requires": required}
    await limited("SetQueueAttributes", QueueUrl=able, Attributes={"Requires": ""})
    assert await limited.attributes(able, "Requires") == {}


async def test_required_names(limited: Sqs) -> None:
    assert await refused(limited.queue(Requires="fair,speed")) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter Requires. Reason: It names some of exact-counts, fair, separated by commas.",
    )
    url = await limited.queue(Requires=" fair, exact-counts")
    assert await limited.attributes(url, "Requires") == {"Requires": "exact-counts,fair"}


async def test_no_longer_delay_of_a_queue(limited: Sqs) -> None:
    assert await refused(limited.queue(Engine="limited", DelaySeconds="61")) == DELAY_REFUSED
    url = await limited.queue(Engine="limited", DelaySeconds="60")
    change = limited("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "61"})
    assert await refused(change) == DELAY_REFUSED


async def test_no_longer_delay_of_a_message(limited: Sqs) -> None:
    url = await limited.queue(Engine="limited")
    await limited.send(url, DelaySeconds=60)
    assert await refused(limited.send(url, DelaySeconds=61)) == (
        "InvalidParameterValue",
        "Value 61 for parameter DelaySeconds is invalid. "
        "Reason: The queue's engine delays messages by at most 60 seconds.",
    )


@pytest.mark.parametrize(
    "lacking",
    [
        replace(FULL, fifo=False),
        replace(FULL, update_body=False),
        replace(FULL, max_delay_ms=3_599_999),
    ],
)
def test_internal_queues_need_an_engine_that_can_do_all(lacking: Capabilities) -> None:
    check_internal_engine("full", FULL)
    with pytest.raises(ValueError, match="the engine lacking cannot have the internal queues"):
        check_internal_engine("lacking", lacking)
