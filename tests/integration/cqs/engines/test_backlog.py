"""More messages in one queue than AWS searches."""

from __future__ import annotations

import uuid

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Entry, QueueRef
from cqs.queues.model import Body, encode_body
from tests.integration.cqs.sqs import ACCOUNT, Sqs

pytestmark = pytest.mark.extended

BACKLOG = 125_000
"""AWS searches the first 120,000 messages of a FIFO queue."""
AT_ONCE = 5_000
BODY = encode_body(Body("waits", "", ACCOUNT, 0))


async def fill(sqs: Sqs, url: str, group: str = "") -> None:
    """Send to the engine directly: the API accepts ten messages at a time."""
    queue = await sqs.store.get((ACCOUNT, "us-east-1", url.rpartition("/")[2]))
    assert queue is not None
    ref = QueueRef(queue.id, queue.fifo, 3_600_000)
    for _ in range(BACKLOG // AT_ONCE):
        await sqs.engine.send(ref, _entries(sqs.clock, group), sqs.clock.now_ms())


def _entries(clock: Clock, group: str) -> list[Entry]:
    now_ms = clock.now_ms()
    return [Entry(str(uuid.uuid4()), BODY, now_ms, now_ms, group) for _ in range(AT_ONCE)]


@pytest.mark.spec("receive.backlog-standard")
async def test_of_a_standard_queue(sqs: Sqs) -> None:
    url = await sqs.queue()
    await fill(sqs, url)
    await sqs.send(url, "last")
    assert await sqs.counts(url) == (BACKLOG + 1, 0, 0)
    assert await sqs.bodies(url) == ["waits"] * 10


@pytest.mark.spec("receive.backlog-fifo")
async def test_of_a_locked_group(sqs: Sqs) -> None:
    url = await sqs.queue("q.fifo", ContentBasedDeduplication="true")
    await sqs.send(url, "locks", MessageGroupId="locked")
    assert await sqs.bodies(url) == ["locks"]
    await fill(sqs, url, "locked")
    await sqs.send(url, "last", MessageGroupId="free")
    assert await sqs.bodies(url) == ["last"]
