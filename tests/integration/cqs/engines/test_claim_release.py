"""Claims of a process without Redis: it releases those of an idle queue once it saved what it hides, and has lost them
if its machine was suspended for longer than they last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cns_common.errors import StoreUnavailable
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cluster import open_engine, schema
from cqs.engines.cluster.no_redis.bucket_reader import IDLE_MS
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, bodies, numbered
from tests.integration.cqs.engines.machines import SECOND_NS, read_own
from tests.machine_clocks import MachineClocks


class RefusingCassandra(Cassandra):
    """A session that does not save the visibility of messages while `refuses` holds; then it sets `refused`."""

    refuses = False

    async def run_batch(self, parts: Sequence[tuple[Statement, Sequence[object]]], *, logged: bool) -> None:
        if self.refuses and any(statement is schema.SET_VISIBLE_AT for statement, _ in parts):
            self.refused.set()
            raise StoreUnavailable("the test refuses it")
        await super().run_batch(parts, logged=logged)

    def refuse(self) -> None:
        self.refuses, self.refused = True, asyncio.Event()


async def _receive(queue: QueueFixture, n: int) -> list[bytes]:
    """The next `n` messages. Their process may have to renew its claims first."""
    arrived: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(arrived) < n:
            queue.now_ms = queue.clock.now_ms()
            arrived += bodies(await queue.take(n - len(arrived), HOUR_MS))
            await asyncio.sleep(0.02)
    return sorted(arrived)


async def _claims_end(cassandra: Cassandra, queue: QueueFixture) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await cassandra.run(schema.LIST_CLAIMS, queue.q.id, ""):
            await asyncio.sleep(0.02)


async def test_messages_stay_hidden_while_their_visibility_cannot_be_saved(cassandra_address: CassandraAddress) -> None:
    clock = Clock()
    cassandra = await RefusingCassandra.open(cassandra_address)
    assert isinstance(cassandra, RefusingCassandra)
    async with open_engine(cassandra, "", clock) as engine:
        queue = QueueFixture(engine, clock)
        await queue.send(*numbered(3))
        assert await _receive(queue, 3) == numbered(3)
        cassandra.refuse()
        queue.advance(IDLE_MS + 1)
        await asyncio.wait_for(cassandra.refused.wait(), PATIENCE_S)
        await queue.send(b"new")
        assert await _receive(queue, 1) == [b"new"]
        cassandra.refuses = False
        queue.advance(IDLE_MS + 1)
        await _claims_end(cassandra, queue)
        await queue.send(b"newer")
        assert await _receive(queue, 1) == [b"newer"]
        assert await queue.counts() == (0, 5, 0)
    await cassandra.close()


class SuspendedCassandra(Cassandra):
    """A session of a process that does nothing until its machine is `awake`."""

    awake: asyncio.Event | None = None

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        if self.awake is not None:
            await self.awake.wait()
        return await super().run(statement, *values)


async def test_a_machine_that_was_suspended_has_lost_its_claims(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its monotonic clock stood still. Another process has the messages by now."""
    monkeypatch.setattr(ClockSkew, "_read", read_own)
    machine = MachineClocks(time.time_ns())
    cassandra, elsewhere = await SuspendedCassandra.open(cassandra_address), await Cassandra.open(cassandra_address)
    async with (
        open_engine(cassandra, "", machine.clock()) as engine,
        open_engine(elsewhere, "", Clock()) as other,
    ):
        queue = QueueFixture(engine, engine._clock)
        there = QueueFixture(other, other._clock)
        there.q = queue.q
        await queue.send(*numbered(3))
        assert len(await _receive(queue, 1)) == 1
        assert isinstance(cassandra, SuspendedCassandra)
        cassandra.awake = asyncio.Event()
        (server,) = engine._servers._servers.values()
        claims = server._fallback._reader.claims
        await elsewhere.run(schema.END_HEARTBEAT, claims._node)  # as if it had expired
        assert await _receive(there, 3) == numbered(3)
        machine.step(60 * SECOND_NS)
        cassandra.awake.set()
        await engine._skew.measure()
        queue.now_ms = queue.clock.now_ms()
        assert bodies(await queue.take(3)) == []
        await server._fallback._reader.heartbeat()
        assert claims.is_certain
        assert bodies(await queue.take(3)) == []
    for session in (cassandra, elsewhere):
        await session.close()
