"""The index of a queue is split: a queue holds many times what one partition may, and what was deleted does not slow
receives."""

from __future__ import annotations

import asyncio
import re

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Consistency, Statement
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.ids import IndexRow, Position
from cqs.engines.bdqs.index import QueueIndex
from tests.conformance.support import HIDE_MS, bodies, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, advance, bdqs_processes

SLOTS = Statement("SELECT slot FROM bdqs_slots WHERE queue = ?")
PART_ROWS = 10
TIMES = 10
DELETES = 10_000
BATCH = 100
BATCH_MS = 100


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "PART_ROWS_MAX", PART_ROWS)


async def _slots(process: Process) -> list[str]:
    return [slot for (slot,) in await process.cassandra.run(SLOTS, process.queue.q.id)]


@pytest.mark.usefixtures("small_parts")
async def test_a_queue_holds_ten_times_what_a_partition_may(cassandra_address: CassandraAddress) -> None:
    everything = numbered(PART_ROWS * TIMES)
    async with bdqs_processes(cassandra_address, 2, OrderHint="1") as (sender, receiver):
        for at in range(0, len(everything), 10):
            await sender.queue.send(*everything[at : at + 10])
        assert len(await _slots(sender)) >= TIMES
        assert await receiver.queue.counts() == (len(everything), 0, 0)
        assert bodies(await receiver.queue.peek_all(33)) == everything
        assert bodies(await receiver.queue.drain()) == everything, "in order over all parts"
        assert await sender.queue.counts() == (0, len(everything), 0)


@pytest.mark.usefixtures("small_parts")
async def test_empty_slots_are_retired_and_no_others(cassandra_address: CassandraAddress) -> None:
    async with bdqs_processes(cassandra_address, 2) as (one, other):
        await one.queue.send(*numbered(PART_ROWS * 2))
        await one.queue.delete(*await one.queue.drain())
        await other.queue.send(b"stays", delay_ms=HIDE_MS)
        assert len(await _slots(one)) > PART_ROWS * 2 // PART_ROWS
        advance(schema.RETIRE_MS + 3 * schema.WINDOW_MS, one, other)
        while await one.engine.maintain_queues(100, one.queue.now_ms):
            pass
        assert len(await _slots(one)) == 1
        assert bodies(await one.queue.take()) == [b"stays"]
        await other.queue.send(b"new")
        assert bodies(await one.queue.take()) == [b"new"]


@pytest.mark.extended
async def test_tombstones_do_not_slow_receives(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 10,000 deletes a receive passes over a few removed rows, not over all."""
    reads: list[tuple[str, Position | None]] = []
    read = QueueIndex.read_visible

    async def recorded(
        index: QueueIndex, queue_id: str, slot: str, start: Position | None, now_ms: int, limit: int, level: Consistency
    ) -> list[IndexRow]:
        reads.append((slot, start))
        return await read(index, queue_id, slot, start, now_ms, limit, level)

    async with bdqs_processes(cassandra_address, 1) as (process,):
        queue = process.queue
        for _ in range(DELETES // BATCH):
            await queue.send(*numbered(BATCH))
            await queue.delete(*await queue.take(BATCH, hide_ms=HIDE_MS))
            queue.advance(BATCH_MS)
        await queue.send(b"1", b"2")
        assert len(await queue.take(1)) == 1  # may be the periodic read that begins at the slot's first row
        monkeypatch.setattr(QueueIndex, "read_visible", recorded)
        assert len(await queue.take(1)) == 1
        passed = [await _tombstones(process, slot, start) for slot, start in reads]
        whole = [await _tombstones(process, slot, None) for slot in await _slots(process)]
    print(f"tombstones: {sum(passed)} of {sum(whole)} in {len(reads)} reads")
    assert sum(whole) >= DELETES
    assert sum(passed) <= DELETES // 10


async def _tombstones(process: Process, slot: str, start: Position | None) -> int:
    """The tombstones that Cassandra passes over in the read of a receive, by its trace."""
    statement = schema.READ_VISIBLE if start is None else schema.READ_VISIBLE_FROM
    values = (process.queue.q.id, slot, *(start or ()), process.queue.now_ms, 10)

    def trace() -> list[str]:
        session = process.cassandra._connection.session
        answer = session.execute(session.prepare(statement.cql).bind(values), trace=True)
        return [str(event.description) for event in answer.get_query_trace(10).events]

    found = [re.search(r"(\d+) tombstone", text) for text in await asyncio.to_thread(trace)]
    return sum(int(one[1]) for one in found if one)
