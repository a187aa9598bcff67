"""Queues with `Consistency=single`: messages are read and written at one replica; what all processes must agree on, a
queue's generation and its list of slots, at a majority while one answers."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from unittest.mock import patch

from cassandra import ConsistencyLevel
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Row
from cns_common.errors import StoreUnavailable
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.known_queues import AGE_MS_MAX
from cqs.engines.bdqs.quorum_fallback import ALONE_MS
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.schema import FIND_QUEUE
from tests.conformance.support import GONE, HIDE_MS, bodies, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, Run, advance, bdqs_processes
from tests.integration.cqs.engines.machines import read_own
from tests.machine_clocks import MachineClocks

ONE, QUORUM = ConsistencyLevel.LOCAL_ONE, ConsistencyLevel.LOCAL_QUORUM


class Levels:
    """The consistency of each statement of a process, by its text; of a batch, by that of its first one."""

    def __init__(self, process: Process) -> None:
        self.found: list[tuple[str, int]] = []
        self.majority = True
        process._gate = self._gate

    def of(self, cql: str) -> list[int]:
        return [level for text, level in self.found if text.startswith(cql)]

    async def _gate(self, run: Run, statement: tuple[Any, ...]) -> list[Row]:
        sent = statement[0]
        parts = getattr(sent, "_statements_and_parameters", None)
        text = "batch" if parts else sent.prepared_statement.query_string
        self.found.append((text, sent.consistency_level))
        if not self.majority and sent.consistency_level != ONE and "FROM system." not in text:
            raise StoreUnavailable("two of three nodes are down")
        return await run(*statement)


async def test_a_delete_at_a_replica_without_the_message_deletes_it(cassandra_address: CassandraAddress) -> None:
    """The replica was away, and has not got yet what it missed."""

    async def gate(run: Run, statement: tuple[Any, ...]) -> list[Row]:
        sent = statement[0]
        is_read = getattr(sent, "prepared_statement", None) and (
            sent.prepared_statement.query_string == schema.READ_STATES.cql
        )
        return [] if is_read and sent.consistency_level == ONE else await run(*statement)

    async with bdqs_processes(cassandra_address, 2, Consistency="single") as (one, two):
        for process in (one, two):
            process.queue.q = replace(process.queue.q, older_handles=True)
        await one.queue.send(b"once")
        message = await one.queue.take_one()
        one._gate = gate
        assert await one.queue.delete(message) == [GONE]
        advance(HIDE_MS + 1, one, two)
        assert not await two.queue.take()


async def test_a_purge_is_read_at_a_majority(cassandra_address: CassandraAddress) -> None:
    """Once in five seconds of receives, and beside each send of one sender: see docs/engines.md."""
    machine = MachineClocks(time.time_ns())
    clocks = machine.clock(), machine.clock()
    with patch.object(ClockSkew, "_read", read_own):
        async with bdqs_processes(cassandra_address, 2, *clocks, Consistency="single") as (one, two):
            levels = Levels(two)
            await one.queue.send(*numbered(20))
            for _ in range(10):
                assert len(await two.queue.take(1)) == 1
            assert levels.of(FIND_QUEUE.cql) == [QUORUM]
            await one.queue.purge()
            machine.run((AGE_MS_MAX + 1) * 1_000_000)
            advance(AGE_MS_MAX + 1, one, two)
            assert not await two.queue.take(10)
            assert levels.of(FIND_QUEUE.cql) == [QUORUM] * 2
            for number in range(10):
                await two.queue.send(b"%d" % number)
            assert levels.of(FIND_QUEUE.cql) == [QUORUM] * 12
            await asyncio.gather(*[two.queue.send(b"together") for _ in range(20)])
            assert levels.of(FIND_QUEUE.cql) in ([QUORUM] * 13, [QUORUM] * 14)
            assert {*levels.of(schema.READ_VISIBLE.cql), *levels.of(schema.INSERT.cql)} == {ONE}


async def test_without_a_majority_one_replica_is_asked_for_a_while(cassandra_address: CassandraAddress) -> None:
    machine = MachineClocks(time.time_ns())
    with patch.object(ClockSkew, "_read", read_own):
        async with bdqs_processes(cassandra_address, 1, machine.clock(), Consistency="single") as (process,):
            levels = Levels(process)
            await process.queue.send(b"1")
            levels.majority = False
            await process.queue.send(b"2")
            assert levels.of(FIND_QUEUE.cql)[-2:] == [QUORUM, ONE]
            await process.queue.send(b"3")
            assert levels.of(FIND_QUEUE.cql)[-2:] == [ONE, ONE], "the second send waits for no majority"
            levels.majority = True
            machine.run(ALONE_MS * 1_000_000)
            advance(ALONE_MS, process)
            await process.queue.send(b"4")
            assert levels.of(FIND_QUEUE.cql)[-1] == QUORUM
            assert sorted(bodies(await process.queue.take(10))) == [b"1", b"2", b"3", b"4"]


async def test_a_row_that_a_replica_has_in_part_is_read_later(cassandra_address: CassandraAddress) -> None:
    """Found on the ring, after nodes were killed: a row without the time of its send."""
    torn = True

    async def gate(run: Run, statement: tuple[Any, ...]) -> list[Row]:
        prepared = getattr(statement[0], "prepared_statement", None)
        rows = await run(*statement)
        if not torn or prepared is None or prepared.query_string != schema.READ.cql:
            return rows
        return [(*row[:3], None, *row[4:]) for row in rows]

    async with bdqs_processes(cassandra_address, 1, Consistency="single") as (process,):
        await process.queue.send(b"body")
        process._gate = gate
        assert not await process.queue.take(1)
        torn = False
        advance(HIDE_MS, process)
        assert bodies(await process.queue.take(1)) == [b"body"]
