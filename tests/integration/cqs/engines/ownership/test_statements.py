"""Statements of idle processes: they do not grow with the processes, and hardly with the queues."""

from __future__ import annotations

import uuid

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.durations import DAY_MS
from cqs.engines.cluster import ROUND_INTERVAL_S
from cqs.engines.contract import Entry, QueueRef
from lab.harness.own_redis import OwnRedis
from tests.integration.cqs.engines.ownership.support import opened, run_rounds, settle

PER_SECOND_MAX = 50
MINUTES = (1, 1, 4)
"""Spans in which statements are counted, one after the other."""


async def cost_of_idle(place: CassandraAddress, url: str, processes: int, queues: int) -> list[float]:
    """Statements per second of all processes together, in each span, after each has used each queue."""
    async with opened(place, url, processes) as (cassandra, running):
        refs = [QueueRef(f"idle-{uuid.uuid4()}", False, 4 * DAY_MS) for _ in range(queues)]
        await settle(running)
        for one in running:
            for at in range(0, queues, 100):
                await one.use(refs[at : at + 100])
        now_ms = running[0].engine._clock.now_ms()
        for number, q in enumerate(refs):
            entry = Entry(str(uuid.uuid4()), b"x", now_ms, now_ms)
            await running[number % processes].engine.send(q, [entry], now_ms)
        await settle(running)
        costs = []
        for minutes in MINUTES:
            before = cassandra.statements
            await run_rounds(running, int(60 * minutes / ROUND_INTERVAL_S))
            costs.append((cassandra.statements - before) / (60 * minutes))
        return costs


async def test_of_idle_queues(cassandra_address: CassandraAddress, own_redis: OwnRedis) -> None:
    alone = await cost_of_idle(cassandra_address, own_redis.url, 1, 40)
    three = await cost_of_idle(cassandra_address, own_redis.url, 3, 40)
    assert alone[-1] < 1
    assert three[-1] < 3
    assert max(*alone, *three) < 12


async def test_of_a_fresh_process(cassandra_address: CassandraAddress, own_redis: OwnRedis) -> None:
    async with opened(cassandra_address, own_redis.url, 1) as (cassandra, running):
        await settle(running)
        before = cassandra.statements
        await run_rounds(running, int(300 / ROUND_INTERVAL_S))
        assert (cassandra.statements - before) / 300 < 0.5


@pytest.mark.extended
async def test_of_eight_processes_with_a_thousand_queues(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    costs = await cost_of_idle(cassandra_address, own_redis.url, 8, 1_000)
    print("statements per second:", costs)
    assert max(costs) <= PER_SECOND_MAX
