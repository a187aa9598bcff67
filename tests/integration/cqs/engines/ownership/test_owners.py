"""Each queue's background work has one owner among the live processes."""

from __future__ import annotations

import uuid

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.durations import DAY_MS
from cqs.engines.cluster import ROUND_INTERVAL_S
from cqs.engines.cluster.ownership.processes import CERTAIN_MS, READ_INTERVAL_MS
from cqs.engines.contract import QueueRef
from lab.harness.own_redis import OwnRedis
from tests.integration.cqs.engines.ownership.support import (
    expire_lease,
    fixture_of,
    opened,
    run_rounds,
    settle,
)


def some_queues(n: int) -> list[QueueRef]:
    return [QueueRef(f"owned-{uuid.uuid4()}", False, 4 * DAY_MS) for _ in range(n)]


@pytest.mark.parametrize("ahead_s", [(0, 0, 0), (-60, 0, 60)])
async def test_each_queue_has_one_owner(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, ahead_s: tuple[int, ...]
) -> None:
    """Whatever the clocks of the processes show, and whether it uses the queue itself."""
    queues = some_queues(40)
    async with opened(cassandra_address, own_redis.url, 3, ahead_s=ahead_s) as (cassandra, [first, second, third]):
        await first.use(queues)
        await settle([first, second, third])
        owned = [one.owned_of(queues) for one in (first, second, third)]
        assert sum(map(len, owned)) == len(set.union(*owned)) == len(queues)
        assert all(owned)
        await expire_lease(cassandra, third.processes.node)
        await settle([first, second])
        assert first.owned_of(queues) >= owned[0]
        assert second.owned_of(queues) >= owned[1]
        assert first.owned_of(queues) | second.owned_of(queues) == {q.id for q in queues}
        assert not first.owned_of(queues) & second.owned_of(queues)


async def test_a_suspended_process_returns_under_another_name(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    """It does nothing as an owner before it has a lease again, and its earlier life is buried by the others."""
    queues = some_queues(20)
    async with opened(cassandra_address, own_redis.url, 2) as (cassandra, [one, other]):
        await one.use(queues)
        await other.use(queues)
        await settle([one, other])
        before, owned = one.processes.node, one.owned_of(queues)
        assert owned
        one.clocks.step(40_000_000_000)  # a machine that is suspended: its monotonic clock stands still
        await expire_lease(cassandra, before)
        await settle([other])
        assert other.owned_of(queues) == {q.id for q in queues}
        assert not one.processes.is_certain
        assert await one.work._checks.step(100, one.engine._clock.now_ms() + DAY_MS, paced=False) == 0
        await settle([one, other])
        assert one.processes.node != before
        assert {one.processes.node, other.processes.node} == set(other.processes.live)
        assert one.owned_of(queues) | other.owned_of(queues) == {q.id for q in queues}
        await one.use(queues)
        uses = [use for number in range(64) for use in await one.used.read(number) if use.q in queues]
        assert {use.node for use in uses} == {one.processes.node, other.processes.node}


async def test_a_process_without_a_lease_is_no_owner(cassandra_address: CassandraAddress, own_redis: OwnRedis) -> None:
    async with opened(cassandra_address, own_redis.url, 1) as (_, [one]):
        await settle([one])
        assert one.processes.owns("anything")
        one.clocks.run(CERTAIN_MS * 1_000_000)
        assert not one.processes.owns("anything")


async def test_a_process_that_leaves_hands_over_at_once(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    queues = some_queues(20)
    async with opened(cassandra_address, own_redis.url, 1) as (cassandra, [one]):
        async with opened(cassandra_address, own_redis.url, 1, beside=cassandra) as (_, [other]):
            await other.use(queues)
            await settle([one, other])
        await settle([one])
        assert set(one.processes.live) == {one.processes.node}
        assert not [use for number in range(64) for use in await one.used.read(number) if use.q in queues]


async def test_without_redis_the_table_is_read_more_often(cassandra_address: CassandraAddress) -> None:
    async with opened(cassandra_address, "", 2) as (cassandra, [one, other]):
        await run_rounds([one, other], 4)
        assert set(one.processes.live) == {one.processes.node, other.processes.node}
        await expire_lease(cassandra, other.processes.node)
        await run_rounds([one], int(READ_INTERVAL_MS / 1000 / ROUND_INTERVAL_S))
        assert set(one.processes.live) == {one.processes.node}


async def test_the_newest_attributes_decide_what_expires(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    """One process last used the queue when its retention was a minute; another one knows that it is a day."""
    async with opened(cassandra_address, own_redis.url, 2) as (_, [one, other]):
        brief = QueueRef(f"owned-{uuid.uuid4()}", False, 60_000, version=1)
        await one.use([brief])
        queue = fixture_of(other, QueueRef(brief.id, False, DAY_MS, version=2))
        await queue.send(b"for a day")
        await settle([one, other])
        for process in (one, other):
            process.clocks.run(120_000_000_000)
            await process.round()
            await process.engine.maintain(100, process.engine._clock.now_ms())
        queue.now_ms = other.engine._clock.now_ms()
        assert [message.body for message in await queue.take()] == [b"for a day"]
