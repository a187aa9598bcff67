"""Poppers whose clocks are a minute apart: unnoticed, one rolls back early or late; noticed, it gives no leases."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.cassandra.clock_skew import open_clock_skew
from cqs.engines.pipes import open_engine
from tests.conformance.support import DONE, HIDE_MS, STALE, QueueFixture, bodies, numbered
from tests.integration.cqs.engines.machines import wall_clock
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes
from tests.machine_clocks import MachineClocks

SECOND_NS = 1_000_000_000
MINUTE_S = 60


def _apart(ahead_s: int) -> tuple[Clock, Clock]:
    """A right clock, and one that is so far ahead; both run when the test says so."""
    right = MachineClocks(time.time_ns())
    wrong = MachineClocks(right.wall_ns + ahead_s * SECOND_NS)
    return right.clock(test=True), wrong.clock(test=True)


async def _taken(process: PipesProcess, n: int) -> list[bytes]:
    process.at_present()
    return sorted(bodies(await process.take(n, HIDE_MS)))


async def test_a_clock_ahead_rolls_back_early(cassandra_address: CassandraAddress) -> None:
    """The messages are delivered twice. Only the last holder's delete counts, so none is lost, and none comes back."""
    async with open_processes(cassandra_address, *_apart(MINUTE_S)) as (right, ahead):
        right.at_present()
        await right.send(*numbered(3))
        first = await right.take(3, HIDE_MS)
        assert sorted(bodies(first)) == numbered(3)
        ahead.at_present()
        early = await ahead.take(3, HIDE_MS)
        assert sorted(bodies(early)) == numbered(3), "half a minute before their time"
        assert {message.deliveries for message in early} == {2}
        assert await right.delete(*first) == [STALE] * 3
        assert await ahead.delete(*early) == [DONE] * 3
        for process in (right, ahead):
            process.advance(10 * HIDE_MS)
            assert not await process.take(3)


async def test_a_clock_behind_rolls_back_late(cassandra_address: CassandraAddress) -> None:
    """It gives out nothing early: what it holds back, another popper delivers in time."""
    async with open_processes(cassandra_address, *_apart(-MINUTE_S)) as (right, behind):
        right.at_present()
        await right.send(*numbered(3))
        held = await right.take(3, HIDE_MS)
        for process in (right, behind):
            process.advance(HIDE_MS)
        assert not await _taken(behind, 3)
        right.at_present()
        again = await right.take(3, HIDE_MS)
        assert sorted(bodies(again)) == numbered(3)
        assert await behind.delete(*held) == [STALE] * 3
        assert await behind.delete(*again) == [DONE] * 3


@pytest.mark.parametrize("ahead_s", [MINUTE_S, -MINUTE_S])
async def test_a_noticed_clock_rolls_nothing_back(cassandra_address: CassandraAddress, ahead_s: int) -> None:
    """Each process compares its clock with Cassandra's: the wrong one follows it, and gives no leases."""
    async with AsyncExitStack() as stack:
        opened: list[QueueFixture] = []
        for seconds in (0, ahead_s):
            cassandra = await Cassandra.open(cassandra_address)
            stack.push_async_callback(cassandra.close)
            clock = Clock(wall_ns=wall_clock(seconds))
            skew = await stack.enter_async_context(open_clock_skew(cassandra, clock))
            engine = await stack.enter_async_context(open_engine(cassandra, clock, skew))
            opened.append(QueueFixture(engine, clock))
        right, wrong = opened
        wrong.q = right.q
        await wrong.send(*numbered(2))
        right.now_ms = max(right.now_ms, wrong.now_ms)
        held = await right.take(2)
        assert sorted(bodies(held)) == numbered(2)
        wrong.now_ms = wrong.clock.now_ms()
        with pytest.raises(StoreUnavailable, match="Cassandra's"):
            await wrong.take(2)
        assert await wrong.delete(*held) == [DONE] * 2
