"""Processes of the engine `pipes` in tests: without background tasks, so that each statement is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import patch

from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.cassandra.clock_skew import ClockSkew, open_clock_skew
from cqs.engines.cassandra.generations import QueueGenerations
from cqs.engines.pipes import PipesEngine
from cqs.engines.pipes.names import NODE_DIGITS
from cqs.engines.pipes.rows import Descriptor, PipeRows
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture
from tests.integration.cqs.engines.machines import read_own

SOON_S = PATIENCE_S
SHORT_TTL_S = 1


class PipesProcess(QueueFixture):
    """One queue, as one process uses it."""

    def __init__(self, engine: PipesEngine, cassandra: Cassandra, clock: Clock) -> None:
        super().__init__(engine, clock)
        self.pipes = engine
        self.cassandra = cassandra
        self.rows = PipeRows(cassandra, clock)

    def shares(self, other: PipesProcess) -> None:
        """Use the other process's queue."""
        self.q = other.q

    def option(self, **options: str) -> None:
        self.q = replace(self.q, options=tuple(options.items()))

    def at_present(self) -> None:
        self.now_ms = self.clock.now_ms()

    async def pipe_names(self) -> list[str]:
        return [pipe.name for pipe in await self.rows.all_pipes(self.q.id, 0)]

    async def states(self) -> list[str]:
        """The state of each pipe, oldest first; the hint must agree."""
        states = []
        for pipe in await self.rows.all_pipes(self.q.id, 0):
            descriptor = await self.descriptor(pipe.name)
            assert descriptor.state in (pipe.state, None)
            states.append(pipe.state)
        return states

    async def descriptor(self, pipe: str) -> Descriptor:
        return await self.rows.describe(self.q.id, pipe) or Descriptor(None, None, None, None)

    async def reap(self, times: int = 3) -> None:
        await self.counts()  # from now on the process knows the queue
        for _ in range(times):
            await self.engine.maintain(1_000, self.now_ms)

    async def unleased(self, column: str) -> None:
        """Wait until nobody has this lease on a pipe of the queue."""
        async with asyncio.timeout(SOON_S):
            while any([getattr(await self.descriptor(name), column) for name in await self.pipe_names()]):
                await asyncio.sleep(0.1)

    async def finished(self, n: int) -> None:
        """Wait until the pusher has finished so many pipes: it does so in the background."""
        async with asyncio.timeout(SOON_S):
            while sum(pipe.is_finished for pipe in await self.rows.all_pipes(self.q.id, 0)) < n:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def open_processes(address: CassandraAddress, *clocks: Clock) -> AsyncIterator[list[PipesProcess]]:
    """A process on each of these clocks; all use one queue. None notices that its clock is wrong."""
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(ClockSkew, "_read", read_own))
        opened: list[PipesProcess] = []
        for clock in clocks:
            cassandra = await Cassandra.open(address)
            stack.push_async_callback(cassandra.close)
            skew = await stack.enter_async_context(open_clock_skew(cassandra, clock))
            node = hex_id()[:NODE_DIGITS]
            engine = PipesEngine(PipeRows(cassandra, clock), QueueGenerations(cassandra), clock, skew, node)
            stack.push_async_callback(engine.close)
            opened.append(PipesProcess(engine, cassandra, clock))
            opened[-1].shares(opened[0])
        yield opened
