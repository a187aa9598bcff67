"""Two processes that use one queue on Cassandra, of which one raises the retention period: the other one, which nobody
calls since, removes no message by the shorter period that it knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from msgspec.structs import replace

from cns_backend.engines import CLUSTER_ENGINES, ClusterServers
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cqs.engines.cassandra.clock_skew import open_clock_skew
from lab.harness.keyspace import emptied
from tests.conformance.support import QueueFixture, bodies
from tests.marks import first

FIFO = "fifo"
"""FIFO queues of the engine `cqs`."""
ENGINES = ("bdqs", "pipes", "cassieq", "cqs", FIFO)
ROWS = 500


@asynccontextmanager
async def _pair(address: CassandraAddress, engine: str) -> AsyncIterator[tuple[QueueFixture, QueueFixture]]:
    """Two processes without Redis, and no others: one that another test left would own the queue."""
    kind = CLUSTER_ENGINES["cqs" if engine == FIFO else engine]()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(emptied(address))
        sides: list[QueueFixture] = []
        for _ in range(2):
            cassandra = await Cassandra.open(address)
            stack.push_async_callback(cassandra.close)
            clock = Clock(test=True)
            skew = await stack.enter_async_context(open_clock_skew(cassandra, clock))
            servers = ClusterServers(
                cassandra=cassandra, redis_urls="", clock=clock, skew=skew, keyspace=address.keyspace
            )
            opened = await stack.enter_async_context(kind.open(servers))
            sides.append(QueueFixture(opened, clock, fifo=engine == FIFO))
            sides[-1].q = sides[0].q
        yield sides[0], sides[1]


async def _raise_retention(here: QueueFixture, there: QueueFixture) -> None:
    """Both know the queue; then the period is raised here from one day to three, and two days pass."""
    await there.send(b"kept", group="g" if there.q.fifo else "", dedup="d" if there.q.fifo else "")
    await there.take(1, hide_ms=0)
    await here.counts()
    here.q = replace(here.q, retention_ms=3 * DAY_MS, version=here.q.version + 1)
    await here.engine.set_attributes(here.q, here.now_ms)
    for side in (here, there):
        side.advance(2 * DAY_MS)


@pytest.mark.parametrize("engine", ENGINES)
async def test_maintenance_elsewhere_keeps_what_is_kept_longer(
    cassandra_address: CassandraAddress, engine: str
) -> None:
    async with _pair(cassandra_address, engine) as (here, there):
        await _raise_retention(here, there)
        await _maintain(there, here)
        assert bodies(await here.peek_all()) == [b"kept"]
        for side in (here, there):
            side.advance(2 * DAY_MS)
        await _maintain(there, here)
        assert bodies(await here.peek_all()) == []


async def _maintain(*sides: QueueFixture) -> None:
    for side in sides:
        await side.engine.maintain(ROWS, side.now_ms)


@pytest.mark.parametrize("engine", first(ENGINES, 1))
async def test_a_receive_elsewhere_keeps_what_is_kept_longer(cassandra_address: CassandraAddress, engine: str) -> None:
    """Its queue's attributes are those from before the change, which it has not heard of."""
    async with _pair(cassandra_address, engine) as (here, there):
        await _raise_retention(here, there)
        await there.engine.set_attributes(there.q, there.now_ms)  # a late call, of the older attributes
        assert bodies(await there.take()) == [b"kept"]
