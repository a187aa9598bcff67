"""Purges by one process during sends by another, on Cassandra and Redis."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cqs.engines.cluster.ids import MessageLocation
from cqs.engines.contract import Entry
from lab.harness.own_redis import OwnRedis
from tests.conformance.support import HIDE_MS, QueueFixture, bodies
from tests.integration.cqs.engines.cache.test_cache_trust import drain_both, proxies
from tests.integration.cqs.engines.cache.test_redis_outage import processes, until_up
from tests.integration.cqs.engines.test_cluster_engine import open_with_session


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_send_during_a_purge_loses_nothing(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch, fifo: bool
) -> None:
    """The sender has written rows of the old generation when a fill or another receive tells it of the purge."""
    clock = Clock()
    async with (
        open_with_session(cassandra_address, own_redis.url, clock) as (one, _),
        open_with_session(cassandra_address, own_redis.url, clock) as (other, _),
    ):
        here = QueueFixture(one, clock, fifo=fifo)
        there = here.at(other)
        await there.send(b"before", group="g" * fifo)
        insert = other._rows.insert

        async def insert_and_hear(
            queue: str, generation: int, entries: Sequence[Entry], now_ms: int, buckets: int = 1
        ) -> list[MessageLocation]:
            places = await insert(queue, generation, entries, now_ms, buckets)
            await other._known_queues.refresh(there.q)
            return places

        await here.purge()
        monkeypatch.setattr(other._rows, "insert", insert_and_hear)
        await there.send(b"after", group="g" * fifo)
        while await one.maintain(500, here.now_ms):  # remove purged rows
            pass
        assert bodies(await here.take()) == [b"after"]


@pytest.mark.extended
async def test_a_purge_by_a_process_that_does_not_reach_redis(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    """It is answered when no process trusts this Redis any more: what the other sends from then on stays."""
    with proxies(own_redis) as (proxy,):
        async with processes(cassandra_address, proxy.redis_url, own_redis.url) as ((here, _), (there, _)):
            await until_up(here)
            await until_up(there)
            await there.send(b"before")
            assert bodies(await here.take()) == [b"before"]
            proxy.cut()
            await here.purge()
            await there.send(b"after")
            here.advance(10 * HIDE_MS)
            assert bodies(await drain_both(here, there, want=1)) == [b"after"]


async def test_rows_of_a_queue_dropped_while_a_purge_is_cleared_up_go(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drop comes when the buckets of the purge are removed, and their record is not yet."""
    async with open_with_session(cassandra_address, own_redis.url, Clock()) as (engine, _):
        queue = QueueFixture(engine, engine._clock)
        await queue.send(b"purged")
        await queue.purge()
        await queue.send(b"dropped")
        rows = engine._rows
        forget = rows.forget_garbage

        async def drop_and_forget(*values: object) -> None:
            monkeypatch.setattr(rows, "forget_garbage", forget)
            await queue.drop()
            await forget(*values)  # type: ignore[arg-type]  # as it was called

        monkeypatch.setattr(rows, "forget_garbage", drop_and_forget)
        while await engine.maintain(500, queue.now_ms):
            pass
        assert not await rows.buckets(queue.q.id, "")
