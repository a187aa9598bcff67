"""Purges by one process during sends by another, on Cassandra and Redis."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cns_common.cassandra.session import CassandraAddress
from cns_common.clock import Clock
from cqs.engines.cluster.ids import MessageLocation
from cqs.engines.contract import Entry
from tests.conformance.support import QueueFixture, bodies
from tests.integration.cqs.engines.test_cluster_engine import open_with_session
from tests.own_redis import OwnRedis


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
            await other._known_queues._read_generation(there.q)
            return places

        await here.purge()
        monkeypatch.setattr(other._rows, "insert", insert_and_hear)
        await there.send(b"after", group="g" * fifo)
        while await one.maintain(500, here.now_ms):  # remove purged rows
            pass
        assert bodies(await here.take()) == [b"after"]
