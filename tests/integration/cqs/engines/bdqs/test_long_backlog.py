"""A queue whose messages were sent over so long a time that its slots are more than one page of the list."""

from __future__ import annotations

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Statement
from cqs.engines.bdqs import schema
from tests.conformance.support import DONE, bodies, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import advance, bdqs_processes

PAGE = 10
SLOTS = 35
LISTED = Statement("SELECT slot FROM bdqs_slots WHERE queue = ?")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "PAGE_ROWS", PAGE)
    text = schema.SLOTS.cql.replace("LIMIT 1000", f"LIMIT {PAGE}")
    assert text != schema.SLOTS.cql
    monkeypatch.setattr(schema, "SLOTS", Statement(text))


async def test_a_consumer_that_comes_late_gets_everything_at_once(cassandra_address: CassandraAddress) -> None:
    """No empty slot is retired meanwhile."""
    async with bdqs_processes(cassandra_address, 2) as (sender, consumer):
        for body in numbered(SLOTS):
            await sender.queue.send(body)
            advance(schema.WINDOW_MS, sender, consumer)
        advance(schema.RETIRE_MS, sender, consumer)
        received: list[bytes] = []
        while messages := await consumer.queue.take():
            received += bodies(messages)
            assert await consumer.queue.delete(*messages) == [DONE] * len(messages)
        assert received == numbered(SLOTS)


async def test_the_slots_that_a_consumer_emptied_are_retired_at_once(cassandra_address: CassandraAddress) -> None:
    async with bdqs_processes(cassandra_address, 2) as (sender, consumer):
        for body in numbered(SLOTS):
            await sender.queue.send(body)
            advance(schema.WINDOW_MS, sender, consumer)
        advance(schema.RETIRE_MS + schema.WINDOW_MS, sender, consumer)
        assert bodies(await consumer.queue.drain()) == numbered(SLOTS)
        for _ in range(SLOTS // PAGE + 1):
            await consumer.engine.maintain_queues(100, consumer.queue.now_ms)
        left = await consumer.cassandra.run(LISTED, consumer.queue.q.id)
        assert len(left) <= 3, "those of the messages in flight"


async def test_a_count_leaves_receives_as_cheap_as_they_were(cassandra_address: CassandraAddress) -> None:
    """They look at a page of the slots, however many a count looks at."""
    async with bdqs_processes(cassandra_address, 1) as (process,):
        for body in numbered(SLOTS):
            await process.queue.send(body)
            process.queue.advance(schema.WINDOW_MS)
        queue = process.engine._known_queues.find(process.queue.q.id)
        assert queue is not None
        queue.picker = queue._new_picker()  # that of a process which comes late
        assert len(await process.queue.take(1)) == 1
        views = queue.picker.views.due(process.queue.now_ms, 0)
        assert len(views) < 2 * PAGE
        assert (await process.queue.counts()) == (SLOTS - 1, 1, 0)
        assert len(queue.picker.views.due(process.queue.now_ms, 0)) == len(views)
