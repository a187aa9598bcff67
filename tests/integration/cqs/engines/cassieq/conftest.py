"""The engine `cassieq` in one process or two, and what its tests look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cqs.engines.cassandra.clock_skew import open_clock_skew
from cqs.engines.cassieq import CassieqEngine, open_engine
from tests.conformance.support import QueueFixture


class Processes:
    """Processes that use one queue, each with a session and a clock of its own."""

    def __init__(self, address: CassandraAddress, stack: AsyncExitStack) -> None:
        self._address = address
        self._stack = stack

    async def start(self, clock: Clock, *, like: QueueFixture | None = None, bucket_size: int = 4) -> QueueFixture:
        """A process, and its view of the queue of `like`, or of a new one."""
        cassandra = await Cassandra.open(self._address)
        self._stack.push_async_callback(cassandra.close)
        skew = await self._stack.enter_async_context(open_clock_skew(cassandra, clock))
        engine = await self._stack.enter_async_context(open_engine(cassandra, clock, skew))
        queue = QueueFixture(engine, clock)
        queue.q = like.q if like is not None else replace(queue.q, options=(("BucketSize", str(bucket_size)),))
        return queue


@pytest.fixture
async def processes(cassandra_address: CassandraAddress) -> AsyncIterator[Processes]:
    async with AsyncExitStack() as stack:
        yield Processes(cassandra_address, stack)


@pytest.fixture
async def queue(processes: Processes) -> QueueFixture:
    """A queue of buckets of four messages."""
    return await processes.start(Clock())


def statements_of(queue: QueueFixture) -> int:
    """The statements that the queue's process has sent so far."""
    return engine_of(queue)._monotons._cassandra.statements


def engine_of(queue: QueueFixture) -> CassieqEngine:
    assert isinstance(queue.engine, CassieqEngine)
    return queue.engine
