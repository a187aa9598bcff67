"""FIFO queues of the engine `cqs` in processes whose clocks are minutes apart: leases, delays and the queue's time."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.errors import StoreUnavailable
from cqs.engines.cassandra import clock_skew
from cqs.engines.cluster import ClusterEngine
from cqs.engines.cluster.fifo import commands as c
from cqs.engines.cluster.fifo import schema
from cqs.engines.cluster.fifo.log import CommandLog
from cqs.engines.contract import Outcome, QueueRef
from tests.conformance.support import QueueFixture, bodies
from tests.integration.cqs.engines.fifo.test_fifo_log import WOKEN_S
from tests.integration.cqs.engines.test_cluster_engine import open_with_session

APART_S = (0, 60, -60)
LEASE_MS = 30_000
ERROR_MS = 10_000
"""More than a stalling machine's error of a measurement."""


class ShiftedClock:
    """A machine's wall clock, `ahead_s` ahead of the others'."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def clock(self) -> Clock:
        return Clock(wall_ns=lambda: time.time_ns() + int(self.ahead_s * 1_000_000_000))


@asynccontextmanager
async def machines(place: CassandraAddress, *clocks: Clock) -> AsyncIterator[list[QueueFixture]]:
    """One FIFO queue, used through an engine on each clock."""
    q = QueueRef(f"queue-{uuid.uuid4()}", True, DAY_MS)
    async with AsyncExitStack() as stack:
        queues = []
        for clock in clocks:
            engine, _ = await stack.enter_async_context(open_with_session(place, "", clock))
            queue = QueueFixture(engine, clock, fifo=True)
            queue.q = q
            queues.append(queue)
        yield queues


@pytest.fixture
def nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes with wrong clocks receive, too."""
    monkeypatch.setattr(clock_skew, "REFUSED_MS", DAY_MS)


def _log(queue: QueueFixture) -> CommandLog:
    assert isinstance(queue.engine, ClusterEngine)
    return queue.engine._fifo._log(queue.q.id)


def _advance(queues: list[QueueFixture], ms: int) -> None:
    for queue in queues:
        queue.advance(ms)


async def _push(queue: QueueFixture, by_ms: int, *commands: c.Command) -> None:
    """Move the queue's time, as a process of the last release did whose clock was ahead. Then the commands, in the same
    slot."""
    log = _log(queue)
    await asyncio.gather(*[log.append(one) for one in (c.Remove(queue.now_ms + by_ms, ()), *commands)])


@pytest.mark.usefixtures("nobody_is_refused")
async def test_leases_and_delays_have_their_lengths(cassandra_address: CassandraAddress) -> None:
    async with machines(cassandra_address, *[ShiftedClock(ahead_s).clock() for ahead_s in APART_S]) as queues:
        for holder, other in itertools.permutations(queues, 2):
            await holder.send(b"held", group="held", dedup=f"{uuid.uuid4()}")
            (held,) = await holder.take(1, LEASE_MS)
            await other.send(b"seen", group="seen")
            await other.send(b"delayed", group="delayed", delay_ms=LEASE_MS)
            assert bodies(await other.take()) == [b"seen"]
            _advance(queues, LEASE_MS - ERROR_MS)
            assert not await other.take()
            assert await holder.delete(held) == [Outcome.DONE]
            _advance(queues, 2 * ERROR_MS)
            assert sorted(bodies(await holder.take(10, LEASE_MS))) == [b"delayed", b"seen"]
            _advance(queues, LEASE_MS + ERROR_MS)
            again = await other.take()
            assert sorted(bodies(again)) == [b"delayed", b"seen"]
            assert set(await holder.delete(*again)) == {Outcome.DONE}
            assert await other.counts() == (0, 0, 0)


@pytest.mark.usefixtures("nobody_is_refused")
async def test_times_of_answers_are_those_of_the_asking_process(cassandra_address: CassandraAddress) -> None:
    async with machines(cassandra_address, *[ShiftedClock(ahead_s).clock() for ahead_s in APART_S]) as queues:
        sender = queues[1]
        await sender.send(b"x", group="g")
        await sender.send(b"y", group="later", delay_ms=LEASE_MS)
        for queue in queues:
            message = await queue.take_one(0)
            assert abs(message.born_at_ms - queue.now_ms) < ERROR_MS
            assert abs(message.first_received_ms - queue.now_ms) < ERROR_MS
            assert (
                abs((await queue.engine.counts(queue.q, queue.now_ms, oldest=True)).oldest_born_at_ms - queue.now_ms)
                < ERROR_MS
            )
            due = [peeked.visible_at_ms for peeked in await queue.peek_all() if peeked.group == "later"]
            assert abs(due[0] - queue.now_ms - LEASE_MS) < ERROR_MS
        message = await queues[0].take_one()
        for queue in queues:
            next_due_ms = (await queue.receive()).next_due_ms
            assert next_due_ms is not None
            assert abs(next_due_ms - queue.now_ms - LEASE_MS) < ERROR_MS


async def test_a_process_with_a_very_wrong_clock_gives_no_leases(cassandra_address: CassandraAddress) -> None:
    """Sends and settlements go by Cassandra's time."""
    async with machines(cassandra_address, Clock(), ShiftedClock(60).clock()) as (right, wrong):
        await wrong.send(b"x", group="g")
        with pytest.raises(StoreUnavailable, match="s ahead of Cassandra"):
            await wrong.take()
        message = await right.take_one()
        assert await wrong.hide(message, 2 * LEASE_MS) is Outcome.DONE
        _advance([right, wrong], LEASE_MS + ERROR_MS)
        assert not await right.take()
        assert await wrong.delete(message) == [Outcome.DONE]


@pytest.mark.usefixtures("nobody_is_refused")
async def test_a_clock_that_is_set_while_the_process_runs(cassandra_address: CassandraAddress) -> None:
    machine = ShiftedClock(0)
    async with machines(cassandra_address, Clock(), machine.clock()) as (holder, stepped):
        await stepped.counts()
        await holder.send(b"x", group="g")
        message = await holder.take_one(LEASE_MS)
        machine.ahead_s = 600
        stepped.now_ms = stepped.clock.now_ms()  # the test's time follows
        await stepped.send(b"y", group="h")
        assert bodies(await stepped.take()) == [b"y"]
        assert await holder.delete(message) == [Outcome.DONE]


@pytest.mark.parametrize("from_a_snapshot", [False, True])
async def test_a_queue_whose_time_is_ahead_heals(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, from_a_snapshot: bool
) -> None:
    if from_a_snapshot:
        monkeypatch.setattr(schema, "SNAPSHOT_EVERY_SLOTS", 1)
    async with machines(cassandra_address, Clock(), Clock(), Clock()) as (holder, other, later):
        await holder.send(b"held", group="held")
        held = await holder.take_one(LEASE_MS)
        await _push(other, 4 * LEASE_MS)
        await _log(other).close()  # the snapshot is written
        assert (await _log(later).catch_up()).now_ms >= other.now_ms + 4 * LEASE_MS
        assert not await later.take()
        assert _log(later).state.now_ms < other.now_ms + ERROR_MS
        assert await holder.delete(held) == [Outcome.DONE]
        await other.send(b"next", group="held")
        assert bodies(await holder.take(10, LEASE_MS)) == [b"next"]
        _advance([holder, other, later], LEASE_MS + ERROR_MS)
        assert bodies(await other.take()) == [b"next"]
        snapshots = {(await _log(queue).catch_up()).snapshot() for queue in (holder, other, later)}
        assert len(snapshots) == 1


async def test_a_message_hidden_in_a_distant_future_is_waited_for(cassandra_address: CassandraAddress) -> None:
    """Nothing is due, by the queue's time, for a year: a waiting receive must heal the queue all the same."""
    async with machines(cassandra_address, Clock(), Clock()) as (ahead, right):
        await ahead.send(b"x", group="g")
        leased = c.Receive(ahead.now_ms, 1, ahead.now_ms + LEASE_MS, 10 * 365 * DAY_MS, 0, "")
        await _push(ahead, 365 * DAY_MS, leased)
        state = await _log(right).catch_up()
        assert not state.would_return_messages(leased)
        waiter = await right.wait()
        assert state.now_ms < right.now_ms + ERROR_MS
        _advance([ahead, right], LEASE_MS + ERROR_MS)
        assert await waiter.wait(WOKEN_S)
        assert bodies(await right.take()) == [b"x"]


async def test_a_test_clock_that_others_have_not_followed_yet_is_no_wrong_clock(
    cassandra_address: CassandraAddress,
) -> None:
    async with machines(cassandra_address, Clock(test=True), Clock(test=True)) as (first, second):
        first.advance(DAY_MS // 2)
        await first.send(b"x", group="g")
        await second.send(b"y", group="h")
        assert _log(second).state.now_ms >= first.now_ms
        assert bodies(await first.take()) == [b"x", b"y"]
