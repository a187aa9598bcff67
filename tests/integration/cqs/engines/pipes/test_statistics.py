"""Statistics reconcile at rest, are read by one statement, and survive the death of a reaper; they are kept by hour."""

from __future__ import annotations

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Statement
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cns_common.errors import StoreUnavailable
from cqs.engines.pipes import schema, statistics
from cqs.engines.pipes.rows import PipeRows
from cqs.engines.views import QueueStatistics
from tests.conformance.support import numbered
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes
from tests.integration.cqs.engines.recorded_statements import kinds, record, recording


async def written_down(process: PipesProcess) -> QueueStatistics:
    process.advance(10_000)
    await process.reap(2)
    statistics = await process.pipes.statistics(process.q)
    assert statistics is not None
    return statistics


async def test_they_reconcile_at_rest(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        for process in (one, two):
            process.option(PipeSize="5")
        await one.send(*numbered(12))
        await two.send(*numbered(8))
        await two.send(b"delayed", delay_ms=600_000)
        now = await written_down(one)
        assert (now.pushed, now.popped, now.depth) == (21, 0, 21)
        taken = await one.take(10, 3_600_000)
        now = await written_down(one)
        assert (now.pushed, now.popped, now.depth) == (21, 10, 11)
        await one.delete(*taken)
        await one.pipes.close()
        now = await written_down(two)  # some pipes are gone by now
        assert (now.pushed, now.popped, now.depth) == (21, 10, 11)
        two.advance(600_000)
        while taken := await two.take(10, 3_600_000):
            await two.delete(*taken)
        await two.pipes.close()
        now = await written_down(two)
        assert not await two.pipe_names()
        assert (now.pushed, now.popped, now.depth) == (21, 21, 0)
        assert now.popped_per_s > 0


async def test_they_are_kept_by_hour(cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes count; the hours add up to the sums. Each is written in the batch of the sums, so it costs no
    statement more, and the rows of a queue are bounded by their time to live."""
    record(monkeypatch)
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        for process in (one, two):
            process.advance(HOUR_MS - process.now_ms % HOUR_MS)  # a new hour begins
        begin_ms = one.now_ms
        await one.send(*numbered(7))
        await one.take(2, 10 * HOUR_MS)
        await written_down(one)
        assert await one.pipes.statistics_by_hour(one.q) == [(begin_ms, 7, 2, 5)]
        for process in (one, two):
            process.advance(2 * HOUR_MS)
        await two.send(*numbered(4))
        with recording() as sent:
            now = await written_down(two)
        batches = [
            kind for kind in kinds(sent) if kind[1] in ("pipes_statistics", "pipes_hours") and kind[0] == "INSERT"
        ]
        assert batches == [("INSERT", "pipes_statistics"), ("INSERT", "pipes_hours")]
        hours = await one.pipes.statistics_by_hour(one.q)
        assert hours == [(begin_ms + 2 * HOUR_MS, 4, 0, 9), (begin_ms, 7, 2, 5)]
        assert (sum(hour.pushed for hour in hours), sum(hour.popped for hour in hours)) == (now.pushed, now.popped)
        before = two.cassandra.statements
        await two.pipes.statistics_by_hour(two.q)
        assert two.cassandra.statements - before == 1
        left_s = await one.cassandra.run(
            Statement("SELECT TTL(pushed) FROM pipes_hours WHERE queue = ? AND generation = 0"), one.q.id
        )
        assert 3 == len(left_s) <= schema.HOURS_MAX
        assert all(0 < seconds <= schema.HOURS_TTL_S for (seconds,) in left_s)


async def test_the_sums_and_their_hour_are_one_write(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock()) as (process,):
        await process.send(*numbered(3))
        await written_down(process)
        keeper, statements = process.pipes._keeper, []
        for wait_ms in (2_000, HOUR_MS):
            process.advance(wait_ms)
            before = process.cassandra.statements
            await keeper.write_down(process.q.id, 0, 1, process.now_ms)
            statements.append(process.cassandra.statements - before)
        reads = ("the sums before", "the totals", "a page of pipes", "waiting", "pending", "pushed")
        assert statements == [len(reads) + 1] * 2


@pytest.mark.extended
async def test_reading_them_is_one_statement_at_any_depth(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock()) as (process,):
        process.option(PipeSize="2")
        for n in (3, 40):
            await process.send(*numbered(n))
            await written_down(process)
            before = process.cassandra.statements
            await process.pipes.statistics(process.q)
            assert process.cassandra.statements - before == 1


@pytest.mark.extended
async def test_a_purge_begins_them_anew(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock()) as (process,):
        await process.send(*numbered(3))
        assert (await written_down(process)).pushed == 3
        await process.purge()
        await process.send(b"after")
        now = await written_down(process)
        assert (now.pushed, now.popped) == (1, 0)


async def test_a_pipe_is_counted_once_if_its_reaper_dies(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died after it had added the pipe to the totals, and another reaper goes on."""
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        for process in (one, two):
            process.option(PipeSize="3")
        await one.send(*numbered(9))
        await one.delete(*await one.drain())
        await one.pipes.close()
        clear = PipeRows.clear
        for _ in range(2):

            async def die(rows: PipeRows, queue_id: str, pipe: str) -> None:
                raise StoreUnavailable("the process was killed")

            monkeypatch.setattr(PipeRows, "clear", die)
            await one.reap(1)
        monkeypatch.setattr(PipeRows, "clear", clear)
        assert len(await one.pipe_names()) == 3
        await two.counts()
        now = await written_down(two)
        assert not await two.pipe_names()
        assert (now.pushed, now.popped) == (9, 9)


async def test_a_queue_with_many_pipes_is_counted_less_often(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By all processes together: each counts every pipe."""
    monkeypatch.setattr(statistics, "PIPE_INTERVAL_MS", 5_000)
    record(monkeypatch)
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        two.shares(one)
        for process in (one, two):
            process.option(PipeSize="5")
        await one.send(*numbered(15))
        assert len(await one.pipe_names()) == 3
        assert (await written_down(one)).pushed == 15
        one.advance(5_000)
        two.advance(15_000)
        with recording() as sent:
            for process in (one, two):
                await process.reap(1)
        assert not [kind for kind in kinds(sent) if kind[1] == "pipes_statistics" and kind[0] == "INSERT"]
        await two.send(b"one more")
        two.advance(10_000)
        assert (await written_down(two)).pushed == 16
