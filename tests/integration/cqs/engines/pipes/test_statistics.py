"""Statistics reconcile at rest, are read by one statement, and survive the death of a reaper."""

from __future__ import annotations

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.pipes.rows import PipeRows
from cqs.engines.views import QueueStatistics
from tests.conformance.support import numbered
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes


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
