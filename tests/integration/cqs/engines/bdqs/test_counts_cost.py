"""Counts of a queue: their cost does not grow with recent deletes, and what others did is counted in the end."""

from __future__ import annotations

from typing import Any

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Row
from cns_common.durations import HOUR_MS, HOUR_S
from cqs.engines import bdqs
from cqs.engines.bdqs import reading, schema
from cqs.engines.bdqs.slot_view import DEEP_RECENT_MS, LAG_MS
from tests.conformance.support import DONE, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, Run, bdqs_processes
from tests.integration.cqs.engines.recorded_statements import Sent, record, recording, tombstones

BATCH = 10
DELETED = 40 * BATCH
SINCE_LAST_READ = 2 * BATCH
"""Positions that were removed after the last read of this process began."""


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch)
    monkeypatch.setattr(bdqs, "COUNT_INTERVAL_S", float(HOUR_S))  # a test reads in the background at its time
    for module, name in ((reading, "KNOWN_MS_MAX"), (schema, "LATE_MS_MAX")):
        monkeypatch.setattr(module, name, HOUR_MS)  # however slow the machine is


async def counted(process: Process) -> tuple[tuple[int, int, int], list[Sent]]:
    with recording() as sent:
        counts = await process.queue.counts()
    return counts, sent


async def work(process: Process) -> None:
    """Receive and delete many messages. One visible message and one of each other kind stay."""
    await process.queue.send(*numbered(2))
    await process.queue.send(b"delayed", delay_ms=HOUR_MS)
    await process.queue.take(1)
    for _ in range(DELETED // BATCH):
        await process.queue.send(*numbered(BATCH))
    process.queue.advance(2 * LAG_MS)  # reads go back by that, for what others may just have sent
    left = DELETED
    while left:
        taken = await process.queue.take(min(BATCH, left))
        left -= len(taken)
        assert await process.queue.delete(*taken) == [DONE] * len(taken)


async def test_after_deletes_of_this_process(cassandra_address: CassandraAddress) -> None:
    async with bdqs_processes(cassandra_address, 1) as (process,):
        await process.queue.send(b"first")
        assert (await process.queue.counts()) == (1, 0, 0)
        _, before = await counted(process)
        await work(process)
        counts, after = await counted(process)
        assert counts == (2, 1, 1)
        assert len(after) <= 1.2 * len(before), [one[0].cql for one in after]
        assert await tombstones(process.cassandra, after) <= SINCE_LAST_READ


async def test_after_deletes_of_another_process(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Visible messages are counted as they are; what others hid is read in the background."""
    monkeypatch.setattr(reading, "FRESH_MS", 0)
    async with bdqs_processes(cassandra_address, 2) as (process, other):
        await process.queue.send(b"first")
        assert (await other.queue.counts()) == (1, 0, 0)
        await work(process)
        other.queue.now_ms = process.queue.now_ms
        assert (await other.queue.counts())[0] == 2
        with recording() as sent:
            await other.engine._reading.read_step()
        assert await tombstones(other.cassandra, sent) >= DELETED, "this passes over them"
        counts, after = await counted(other)
        assert counts == (2, 1, 1)
        assert await tombstones(other.cassandra, after) <= SINCE_LAST_READ


async def test_late_ones_are_counted_beside_too_many_hidden_ones(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FRESH_MS", 0)
    monkeypatch.setattr(reading, "HIDDEN_MAX", 1)
    async with bdqs_processes(cassandra_address, 2) as (process, other):
        await process.queue.send(b"first")
        assert await process.queue.delete(*await process.queue.take()) == [DONE]
        await process.queue.send(*numbered(3), delay_ms=HOUR_MS)
        other.queue.advance(4 * LAG_MS)
        assert (await other.queue.counts()) == (0, 0, 3)
        await process.queue.send(b"late")
        assert (await other.queue.counts()) == (0, 0, 3)
        other.queue.advance(DEEP_RECENT_MS)
        await other.queue.counts()
        await other.engine._reading.read_step()
        assert (await other.queue.counts()) == (1, 0, 3)


@pytest.mark.parametrize("in_background", [False, True])
async def test_a_purge_during_a_count(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, in_background: bool
) -> None:
    """The reads of the messages before it do not count after it."""
    monkeypatch.setattr(reading, "FRESH_MS", 0)
    async with bdqs_processes(cassandra_address, 2) as (process, other):
        if in_background:
            await other.queue.counts()
        await process.queue.send(*numbered(3), delay_ms=HOUR_MS)
        queue = await other.engine._known_queues.get(other.queue.q)
        purged: list[int] = []

        async def gate(run: Run, statement: tuple[Any, ...]) -> list[Row]:
            rows = await run(*statement)
            if not purged and "FROM bdqs_slots" in statement[0].prepared_statement.query_string:
                await process.queue.purge()
                purged.append(queue.generation)
                queue.observe_generation(queue.generation + 1)
            return rows

        other._gate = gate
        await (other.engine._reading.read_step() if in_background else other.queue.counts())
        other.free()
        assert purged
        assert (await other.queue.counts()) == (0, 0, 0)
