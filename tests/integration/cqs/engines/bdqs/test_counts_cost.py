"""The cost of the counts of a queue does not grow with the messages that were deleted from it lately."""

from __future__ import annotations

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.durations import HOUR_MS
from cqs.engines.bdqs import reading, schema
from cqs.engines.bdqs.slot_view import LAG_MS
from tests.conformance.support import DONE, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, bdqs_processes
from tests.integration.cqs.engines.recorded_statements import Sent, record, recording, tombstones

BATCH = 10
DELETED = 40 * BATCH
SINCE_LAST_READ = 2 * BATCH
"""Positions that were removed after the last read of this process began."""


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch)
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
