"""A delete that is cut off between the memory of its process, without Redis, and the rows: its messages come again."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.cluster import ClusterEngine, open_engine, schema
from cqs.engines.cluster.no_redis.bucket_reader import IDLE_MS, WRITE_MS_MAX
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, bodies

HIDE_MS = 3 * WRITE_MS_MAX
STEP_MS = IDLE_MS - 100
"""So short that the queue is not idle."""


class LateCassandra(Cassandra):
    """A session in which reads of messages are late, or fail, while it is `late`."""

    late = False
    fails = False

    async def run_each(self, statement: Statement, rows: object) -> list[list[Row]]:
        if self.late and statement is schema.READ:
            self.asked.set()
            if self.fails:
                raise StoreUnavailable("the test refuses it")
            await asyncio.Event().wait()
        return await super().run_each(statement, rows)  # type: ignore[arg-type]

    def hold(self, *, fails: bool) -> None:
        self.late, self.fails, self.asked = True, fails, asyncio.Event()


async def _read(engine: ClusterEngine, queue: QueueFixture) -> list[bytes]:
    queue.advance(STEP_MS)
    (server,) = engine._servers._servers.values()
    await server._fallback._reader.heartbeat()
    await server._fallback._reader.step()
    queue.now_ms = queue.clock.now_ms()
    return bodies(await queue.take(2))


@pytest.mark.parametrize("fails", [True, False])
async def test_a_batch_with_a_message_that_another_process_delivered(
    cassandra_address: CassandraAddress, *, fails: bool
) -> None:
    """Without Redis the process asks the rows about that one. The read fails, or is so late that the caller goes."""
    cassandra, elsewhere = await LateCassandra.open(cassandra_address), await Cassandra.open(cassandra_address)
    assert isinstance(cassandra, LateCassandra)
    clock = Clock()
    async with open_engine(cassandra, "", clock) as engine, open_engine(elsewhere, "", clock) as other:
        here, there = QueueFixture(engine, clock), QueueFixture(other, clock)
        there.q = here.q
        handles = []
        for queue, body in ((here, b"here"), (there, b"there")):
            await queue.send(body)
            async with asyncio.timeout(PATIENCE_S):
                while not (taken := await queue.take(1, HIDE_MS)):
                    queue.now_ms = clock.now_ms()
            assert bodies(taken) == [body]
            handles.append(taken[0].handle)
        for _ in range(2 * WRITE_MS_MAX // STEP_MS):  # the rows of that time are not read again
            await _read(engine, here)
        cassandra.hold(fails=fails)
        deleting = asyncio.create_task(engine.delete(here.q, handles, clock.now_ms()))
        await cassandra.asked.wait()
        deleting.cancel()
        await asyncio.wait({deleting})
        cassandra.late = False
        arrived = [body for _ in range(2 * WRITE_MS_MAX // STEP_MS) for body in await _read(engine, here)]
        assert b"here" in arrived
    for session in (cassandra, elsewhere):
        await session.close()
