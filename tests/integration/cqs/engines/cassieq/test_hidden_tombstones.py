"""Entries of hidden messages that were removed: Cassandra passes over them for hours, and refuses a read that passes
over 100,000."""

from __future__ import annotations

import pytest

from cns_common.cassandra.session import Statement
from cqs.engines.cassieq import hidden, schema
from cqs.engines.cassieq.ids import queue_key
from tests.conformance.support import QueueFixture, bodies
from tests.integration.cqs.engines.cassieq.conftest import engine_of
from tests.integration.cqs.engines.recorded_statements import tombstones

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
REMOVED = 101_000
BATCH = 1_000
ADD = Statement(f"{schema.ADD_HIDDEN.cql} USING TIMESTAMP ?")
REMOVE = Statement(schema.REMOVE_HIDDEN.cql.replace(" WHERE", " USING TIMESTAMP ? WHERE"))


async def _remove_entries(queue: QueueFixture, n: int, from_ms: int, to_ms: int) -> None:
    """Entries that were due then, and were removed an hour ago."""
    cassandra, key = engine_of(queue)._monotons._cassandra, queue_key(queue.q.id, 0)
    for at in range(0, n, BATCH):
        entries = [(key, from_ms + (to_ms - from_ms) * number // n, number, "n") for number in range(at, at + BATCH)]
        removed_us = (queue.clock.wall_ms() - HOUR_MS) * 1_000
        await cassandra.run_batch([(REMOVE, (removed_us, *entry)) for entry in entries], logged=False)


@pytest.mark.extended
async def test_many_removed_entries_of_the_last_hours_keep_nobody_from_receiving(queue: QueueFixture) -> None:
    await queue.send(b"first")
    await _remove_entries(queue, REMOVED, queue.now_ms - 180 * MINUTE_MS, queue.now_ms - 20 * MINUTE_MS)
    assert bodies(await queue.take()) == [b"first"]


async def test_a_receive_lets_cassandra_forget_what_was_removed(
    queue: QueueFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden, "REMOVED_MIN", 0)
    cassandra, key = engine_of(queue)._monotons._cassandra, queue_key(queue.q.id, 0)
    read = [(schema.LIST_HIDDEN, (key, *hidden.BEGIN, hidden.PAGE))]
    await queue.send(b"first")
    await _remove_entries(queue, BATCH, queue.now_ms - 180 * MINUTE_MS, queue.now_ms - 20 * MINUTE_MS)
    assert await tombstones(cassandra, read) >= BATCH
    assert bodies(await queue.take()) == [b"first"]
    assert await tombstones(cassandra, read) <= 2


async def test_an_entry_that_is_under_way_is_found(queue: QueueFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was dated before Cassandra forgets what was removed, and comes after that."""
    monkeypatch.setattr(hidden, "REMOVED_MIN", 0)
    await queue.send(b"first")
    cassandra, key = engine_of(queue)._monotons._cassandra, queue_key(queue.q.id, 0)
    dated_us = (queue.clock.wall_ms() - MINUTE_MS) * 1_000
    assert bodies(await queue.take()) == [b"first"]
    due_ms = queue.now_ms - 15 * MINUTE_MS
    await cassandra.run(ADD, key, due_ms, 0, "n", dated_us)
    page = await engine_of(queue)._reader._hidden.page(key, hidden.BEGIN)
    assert [entry.due_ms for entry in page] == [due_ms]
