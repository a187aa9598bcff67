"""An owner removes empty buckets at the pace at which they become empty."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cqs.engines.cluster import bucket_writer, standard
from cqs.engines.cluster.maintenance import drop_empty
from cqs.engines.cluster.ownership.owned_queues import OwnedQueue
from cqs.engines.cluster.rows import ListedBucket
from lab.harness.own_redis import OwnRedis
from tests.conformance.support import POLL_S, QueueFixture, numbered
from tests.integration.cqs.engines.ownership.support import Process, fixture_of, opened, settle

ROWS = 10
BUCKETS = 8


async def listed(process: Process, queue: QueueFixture) -> list[ListedBucket]:
    return await process.rows.listed_buckets(queue.q.id, "")


async def fill_buckets(process: Process, queue: QueueFixture) -> None:
    """All but the last are full, and sealed by their writer."""
    for _ in range(BUCKETS):
        await queue.send(*numbered(ROWS))
    await asyncio.gather(*process.rows._seals)
    assert [bucket.sealed for bucket in await listed(process, queue)] == [True] * (BUCKETS - 1) + [False]


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_writer, "BUCKET_ROWS_MAX", ROWS)


async def test_the_owner_looks_as_soon_as_others_deleted_many_messages(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its clock stands still, so that the pause after its last look has not ended."""
    monkeypatch.setattr(standard, "DELETES_PER_LOOK", 2 * ROWS)
    async with opened(cassandra_address, own_redis.url, 2) as (_, [one, other]):
        queue = fixture_of(one)
        await fill_buckets(one, queue)
        await settle([one, other])
        if one.owned_of([queue.q]):
            owner, deleting = one, queue.at(other.engine)
        else:
            owner, deleting = other, queue
        await owner.work.round()
        assert len(await listed(one, queue)) == BUCKETS
        taken = sorted(await deleting.drain(3_600_000), key=lambda message: message.sequence)
        for at in range(0, 4 * ROWS, ROWS):
            await deleting.delete(*taken[at : at + ROWS])
        async with asyncio.timeout(6 * POLL_S):
            while len(await listed(one, queue)) > BUCKETS - 4:
                await owner.work.round()


async def test_one_look_removes_all_empty_buckets_that_are_the_oldest(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    async with opened(cassandra_address, own_redis.url, 1) as (_, [one]):
        queue = fixture_of(one)
        await fill_buckets(one, queue)
        owned = OwnedQueue(queue.q)
        before = await listed(one, queue)
        assert await drop_empty(one.rows, owned, before, 100, queue.now_ms) == 0
        taken = sorted(await queue.drain(3_600_000), key=lambda message: message.sequence)
        await queue.delete(*taken[: 5 * ROWS], *taken[6 * ROWS : 7 * ROWS])
        owned.last_examined = before[-2].name
        assert await drop_empty(one.rows, owned, before, 1, queue.now_ms) == 1
        assert await drop_empty(one.rows, owned, await listed(one, queue), 100, queue.now_ms) == 5
        assert await listed(one, queue) == [before[5], before[7]]
