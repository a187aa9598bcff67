"""Processes whose clocks are a minute wrong, before they notice: Redis' clock decides what is visible."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.durations import HOUR_MS
from cns_common.errors import StoreUnavailable
from cns_common.metrics.catalogue import CLOCK_OFFSET_SECONDS
from cqs.engines.cluster import ClusterEngine, known_queues
from lab.harness.own_redis import OwnRedis
from tests.conformance.support import DONE, GONE, QueueFixture, bodies, numbered
from tests.integration.cqs.engines.machines import processes, running_processes

BEHIND_S = [60, -60]
"""The lag of the first process's clock behind that of the second, which is nearly right."""
STARTED_S = 5
"""The tests' clocks stand still. Started so long ago, each differs from Redis' clock by more than it tolerates, however
fast the machine is."""


@pytest.fixture(autouse=True)
def late_calls_are_tolerated() -> None:
    """Not here: clocks differ from Redis' by seconds, and its scripts are to see that."""


@pytest.fixture(autouse=True)
def fills_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a receive during a fill may return nothing."""
    monkeypatch.setattr(known_queues, "FILL_WAIT_S", known_queues.FILL_WAIT_S * 60)


def advance(ms: int, *queues: QueueFixture) -> None:
    for queue in queues:
        queue.advance(ms)


@pytest.mark.parametrize("behind_s", BEHIND_S)
async def test_leases_are_held_and_end_by_redis_clock(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, behind_s: int
) -> None:
    async with processes(cassandra_address, own_redis.url, behind_s, STARTED_S) as (_, wrong, right):
        await right.send(*numbered(20))
        held = [*await right.take(10, HOUR_MS), *await wrong.take(10, HOUR_MS)]
        assert sorted(bodies(held)) == numbered(20)
        assert not await wrong.take()
        assert not await right.take()
        assert await wrong.counts() == await right.counts() == (0, 20, 0)
        first, second = held[0], held[-1]  # received by one process, and hidden longer by the other
        assert await wrong.hide(first, 2 * HOUR_MS) is await right.hide(second, 2 * HOUR_MS) is DONE
        advance(HOUR_MS, wrong, right)
        again = [*await wrong.drain(HOUR_MS), *await right.drain(HOUR_MS)]
        assert sorted(bodies(again)) == sorted({*numbered(20)} - {first.body, second.body})
        advance(HOUR_MS, wrong, right)
        assert len(await wrong.drain(HOUR_MS)) == 20


@pytest.mark.parametrize("behind_s", BEHIND_S)
async def test_messages_come_at_once_or_after_their_delay(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, behind_s: int
) -> None:
    async with processes(cassandra_address, own_redis.url, behind_s, STARTED_S) as (_, wrong, right):
        await wrong.send(b"sent by the wrong clock")
        assert bodies(await right.take(10, 2 * HOUR_MS)) == [b"sent by the wrong clock"]
        await right.send(b"sent by the right clock")
        assert bodies(await wrong.take(10, 2 * HOUR_MS)) == [b"sent by the right clock"]
        for sender in (wrong, right):
            await sender.send(b"later", delay_ms=HOUR_MS)
        assert not await wrong.take()
        assert not await right.take()
        assert await wrong.counts() == (0, 2, 2)
        advance(HOUR_MS, wrong, right)
        assert bodies(await right.take(1)) == bodies(await wrong.take(1)) == [b"later"]


@pytest.mark.parametrize("behind_s", BEHIND_S)
async def test_a_fill_by_another_process_than_the_sender(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch, behind_s: int
) -> None:
    """The rows have times of the sender's clock. What has no delay is visible all the same."""
    async with processes(cassandra_address, own_redis.url, behind_s, STARTED_S) as (_, wrong, right):
        assert isinstance(wrong.engine, ClusterEngine)
        with monkeypatch.context() as patch:
            patch.setattr(wrong.engine._known_queues, "start_fill", lambda *_: None)
            await wrong.send(b"sent by the wrong clock")
            await wrong.send(b"later", delay_ms=HOUR_MS)
        assert bodies(await right.take()) == [b"sent by the wrong clock"]
        assert await right.counts() == await wrong.counts() == (0, 1, 1)


@pytest.mark.parametrize("behind_s", BEHIND_S)
async def test_deletes_and_spent_messages(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, behind_s: int
) -> None:
    async with processes(cassandra_address, own_redis.url, behind_s, STARTED_S) as (_, wrong, right):
        for queue in (wrong, right):
            queue.set(max_receives=2)
        await wrong.send(b"1 by wrong")
        await right.send(b"2 by right")
        for taker, deleter in ((wrong, right), (right, wrong)):
            message = await taker.take_one(HOUR_MS)
            assert await deleter.delete(message) == [DONE]
            assert await taker.delete(message) == [GONE]
        assert await right.counts() == (0, 0, 0)
        await wrong.send(b"never deleted")
        for taker in (right, wrong):
            assert bodies(await taker.take(1, HOUR_MS)) == [b"never deleted"]
            assert not (await right.receive()).spent
            advance(HOUR_MS, wrong, right)
        assert bodies((await right.receive()).spent) == [b"never deleted"]


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("behind_s", BEHIND_S)
async def test_a_process_that_notices_sends_and_deletes_but_gives_no_leases(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, behind_s: int, fifo: bool
) -> None:
    async with running_processes(cassandra_address, own_redis.url, (-behind_s, 0)) as (wrong, right):
        for queue in (wrong, right):
            queue.q = replace(right.q, fifo=fifo)
        right.now_ms = right.clock.now_ms()
        await wrong.send(b"one", group="g" * fifo)
        message = await right.take_one()
        assert abs(message.born_at_ms - right.now_ms) < 1_000 * abs(behind_s) / 2
        where = "behind" if behind_s > 0 else "ahead of"
        with pytest.raises(StoreUnavailable, match=f"s {where} Cassandra's"):
            await wrong.take()
        assert await wrong.delete(message) == [DONE]
        assert await right.counts() == await wrong.counts() == (0, 0, 0)
        (offset_s,) = [one.value for one in engine_of(wrong)._skew.samples() if one.name == CLOCK_OFFSET_SECONDS.name]
        assert offset_s == pytest.approx(-behind_s, abs=abs(behind_s) / 2)


def engine_of(queue: QueueFixture) -> ClusterEngine:
    assert isinstance(queue.engine, ClusterEngine)
    return queue.engine
