"""A process dies at any statement, before it is written or before its answer: nothing acknowledged is lost or comes
back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.contract import Message
from tests.conformance.support import bodies, numbered
from tests.integration.cqs.engines.pipes.support import SOON_S, PipesProcess, open_processes

POINTS_MAX = 200
"""More than the scenario has statements."""
SLICE = [(9, False), (14, True)]


class Death:
    """Lets a process die at a statement: from then on none of its statements is written."""

    def __init__(self, cassandra: Cassandra, statement: int, *, written: bool) -> None:
        self._try = cassandra._try
        self._left = statement
        self._written = written
        self.happened = False

    async def __call__(self, statement: object, limit_s: float) -> list[Row]:
        if not self.happened:
            self._left -= 1
            if self._left > 0:
                return await self._try(statement, limit_s)
            self.happened = True
            if self._written:
                await self._try(statement, limit_s)
        raise StoreUnavailable("the process was killed")


class Life:
    """The calls of a process: all that it began, and all that were acknowledged."""

    def __init__(self, process: PipesProcess) -> None:
        self.process = process
        self.sending: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.deleting: set[bytes] = set()
        self.deleted: set[bytes] = set()

    async def send(self, *some: bytes, delay_ms: int = 0) -> None:
        self.sending |= set(some)
        await self.process.send(*some, delay_ms=delay_ms)
        self.sent |= set(some)

    async def delete(self, *messages: Message) -> None:
        self.deleting |= set(bodies(messages))
        await self.process.delete(*messages)
        self.deleted |= set(bodies(messages))

    async def run(self) -> None:
        process = self.process
        await self.send(*numbered(3, b"a"))
        await self.send(*numbered(2, b"b"))
        await self.send(b"delayed", delay_ms=1_000)
        taken = await process.take(4, 5_000)
        await self.delete(*taken[:1])
        for message in taken[1:3]:
            await process.hide(message, 0)
        again = await process.take(2, 5_000)
        await self.delete(*again)
        process.advance(10_000)
        await self.delete(*await process.take(3, 5_000))
        await self.send(*numbered(2, b"c"))
        await process.pipes.close()
        await process.reap(2)


async def _survived(call: Awaitable[None]) -> bool:
    try:
        await call
    except CnsError:
        return False
    return True


async def check(address: CassandraAddress, statement: int, *, written: bool) -> bool:
    """Returns whether the process died."""
    async with open_processes(address, Clock(), Clock()) as (process, other):
        for one in (process, other):
            one.option(PipeSize="3")
        await other.counts()
        death = Death(process.cassandra, statement, written=written)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process.cassandra, "_try", death)
            life = Life(process)
            await _survived(life.run())
            there = {peeked.body for peeked in await other.peek_all()}
            assert life.sent - life.deleting <= there <= life.sending - life.deleted
            other.advance(HOUR_MS)
            received: list[bytes] = []
            async with asyncio.timeout(SOON_S):  # the dead process's leases end
                while not there <= set(received):
                    received += bodies(await other.drain(HOUR_MS))
                    await other.reap(1)
            assert sorted(received) == sorted(there)
        return death.happened


@pytest.mark.usefixtures("short_owner_leases")
@pytest.mark.parametrize(("statement", "written"), SLICE)
async def test_a_death_at_some_statements(cassandra_address: CassandraAddress, statement: int, written: bool) -> None:
    assert await check(cassandra_address, statement, written=written)


@pytest.mark.extended
@pytest.mark.usefixtures("short_owner_leases")
@pytest.mark.parametrize("written", [False, True])
async def test_a_death_at_any_statement(cassandra_address: CassandraAddress, written: bool) -> None:
    for statement in range(1, POINTS_MAX):
        if not await check(cassandra_address, statement, written=written):
            assert statement > 20
            return
    raise AssertionError("the scenario has more statements")
