"""Two processes that use one queue on Cassandra, of which one purges it: what the other sends after the purge's answer
stays, and what it deletes is gone, whatever it knows of the purge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from cns_backend.engines import CLUSTER_ENGINES, ClusterServers
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row, Statement
from cqs.engines.cassandra import schema
from cqs.engines.cassandra.clock_skew import ClockSkew, open_clock_skew
from cqs.engines.contract import RejectedEntry
from tests.conformance.support import DONE, HIDE_MS, QueueFixture, bodies
from tests.integration.cqs.engines.machines import at_present, read_own
from tests.machine_clocks import MachineClocks
from tests.marks import extended, first

SECOND_NS = 1_000_000_000
PAUSE_S = 40
ENGINES = ("bdqs", "pipes", "cassieq", "cqs")
READ_BESIDE = {"bdqs", "pipes"}
"""Engines that read the generation beside the write of a send. The others read it after the write."""


class PausedCassandra(Cassandra):
    """A session that stops at the next write until it goes on. `read` is set when a generation was read meanwhile."""

    stops = False

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        if statement is schema.FIND_QUEUE:
            rows = await super().run(statement, *values)
            self.read.set()
            return rows
        if not statement.cql.startswith("SELECT"):
            await self._pause()
        return await super().run(statement, *values)

    async def run_batch(self, parts: Sequence[tuple[Statement, Sequence[object]]], *, logged: bool) -> None:
        await self._pause()
        await super().run_batch(parts, logged=logged)

    def stop(self) -> None:
        self.stops, self.stopped, self.going_on, self.read = True, asyncio.Event(), asyncio.Event(), asyncio.Event()

    def go_on(self) -> None:
        self.stops = False
        self.going_on.set()

    async def _pause(self) -> None:
        if self.stops:
            self.stopped.set()
            await self.going_on.wait()


class Pair:
    """The process that purges, and the other one with its session and its machine's clocks."""

    def __init__(self, sides: Sequence[QueueFixture], session: PausedCassandra, machine: MachineClocks) -> None:
        self.here, self.there = sides
        self.session = session
        self.machine = machine

    def settle_clocks(self) -> None:
        at_present(self.here, self.there)


@asynccontextmanager
async def _pair(address: CassandraAddress, engine: str, ahead_s: int = 0) -> AsyncIterator[Pair]:
    """Processes without Redis, one on a machine whose clock is ahead, which neither notices."""
    kind = CLUSTER_ENGINES[engine]()
    right = MachineClocks(time.time_ns())
    wrong = MachineClocks(right.wall_ns + ahead_s * SECOND_NS)
    async with AsyncExitStack() as stack:
        sides: list[QueueFixture] = []
        sessions: list[PausedCassandra] = []
        for machine in (right, wrong):
            cassandra = await PausedCassandra.open(address)
            assert isinstance(cassandra, PausedCassandra)
            cassandra.stop()
            cassandra.go_on()
            sessions.append(cassandra)
            stack.push_async_callback(cassandra.close)
            clock = machine.clock()
            skew = await stack.enter_async_context(open_clock_skew(cassandra, clock))
            servers = ClusterServers(
                cassandra=cassandra, redis_urls="", clock=clock, skew=skew, keyspace=address.keyspace
            )
            opened = await stack.enter_async_context(kind.open(servers))
            sides.append(QueueFixture(opened, clock))
            sides[-1].q = sides[0].q
        yield Pair(sides, sessions[-1], wrong)


@pytest.fixture(autouse=True)
def unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process takes its own clock for Cassandra's."""
    monkeypatch.setattr(ClockSkew, "_read", read_own)


async def _everything(queue: QueueFixture) -> list[bytes]:
    """All messages that the purger can receive, now or later."""
    queue.advance(3 * 60_000)
    return sorted(bodies(await queue.drain()))


CLOCKS = [("bdqs", 0), ("pipes", 0), ("cassieq", 0), ("cqs", 0)]
CLOCKS_APART = [(engine, ahead_s) for engine in ENGINES for ahead_s in (60, -60)]


@pytest.mark.parametrize(("engine", "ahead_s"), [*CLOCKS, *extended(*CLOCKS_APART)])
async def test_a_send_after_another_process_purged_stays(
    cassandra_address: CassandraAddress, engine: str, ahead_s: int
) -> None:
    async with _pair(cassandra_address, engine, ahead_s) as both:
        here, there = both.here, both.there
        both.settle_clocks()
        await here.send(b"before here")
        await there.send(b"before there")
        for number in range(3):
            await here.purge()
            await there.send(b"after %d" % number)
        assert await _everything(here) == [b"after 2"]


@pytest.mark.parametrize("engine", first(ENGINES, 2))
async def test_a_process_stopped_in_a_send_while_another_purges(
    cassandra_address: CassandraAddress, engine: str
) -> None:
    """It goes on 40 s later, with a write to the generation that was purged."""
    async with _pair(cassandra_address, engine) as both:
        here, there, session = both.here, both.there, both.session
        both.settle_clocks()
        await there.send(b"before")
        session.stop()
        sending = asyncio.ensure_future(there.send(b"during"))
        await session.stopped.wait()
        if engine in READ_BESIDE:
            await session.read.wait()
        await here.purge()
        both.machine.step(PAUSE_S * SECOND_NS)
        session.go_on()
        await sending
        assert await _everything(here) == [b"during"]


@pytest.mark.parametrize("engine", first(ENGINES, 2))
async def test_a_process_that_does_not_know_of_a_purge_settles_newer_messages(
    cassandra_address: CassandraAddress, engine: str
) -> None:
    async with _pair(cassandra_address, engine) as both:
        here, there = both.here, both.there
        both.settle_clocks()
        await there.send(b"before")
        await here.purge()
        await here.send(b"deleted", b"given back")
        messages = {message.body: message for message in await here.take(10, 10 * HIDE_MS)}
        assert await there.hide(messages[b"given back"], 0) == DONE
        await here.purge()
        await here.send(b"deleted")
        assert await there.delete(*await here.take(10)) == [DONE]
        assert await _everything(here) == []


@pytest.mark.parametrize("engine", extended(*ENGINES))
async def test_a_dropped_queue_accepts_nothing_anywhere(cassandra_address: CassandraAddress, engine: str) -> None:
    async with _pair(cassandra_address, engine) as both:
        both.settle_clocks()
        await both.there.send(b"before")
        await both.here.drop()
        assert await both.there.send_entries([both.there.entry(b"late")]) == [RejectedEntry()]


@pytest.mark.parametrize("engine", extended(*ENGINES))
async def test_senders_share_reads_of_the_generation(cassandra_address: CassandraAddress, engine: str) -> None:
    """Fifty concurrent sends share reads: one under way, and at least one for all that came meanwhile."""
    async with _pair(cassandra_address, engine) as both:
        both.settle_clocks()
        await both.there.send(b"first")
        reads: list[Statement] = []
        run = both.session.run

        async def counted(statement: Statement, *values: object) -> list[Row]:
            if statement is schema.FIND_QUEUE:
                reads.append(statement)
            return await run(statement, *values)

        both.session.run = counted  # type: ignore[method-assign]  # a session of this test alone
        await asyncio.gather(*[both.there.send(b"%d" % number) for number in range(50)])
        assert 1 <= len(reads) <= 25
