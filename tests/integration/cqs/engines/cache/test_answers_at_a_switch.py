"""Receives while Redis is lost and while it comes back: none is empty although messages wait."""

from __future__ import annotations

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.metrics.catalogue import REDIS_UP
from cqs.engines.cluster import cache_failover
from lab.harness.own_redis import OwnRedis
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, numbered
from tests.integration.cqs.engines.cache.test_redis_outage import queues, sample

BEFORE_AND_AFTER = 10
"""Receives of each process before the loss, between loss and return, and after it."""


class Receives:
    """Processes that receive in turn and give back at once, so that messages always wait."""

    def __init__(self, processes: list[QueueFixture]) -> None:
        self._processes = processes
        self.answers = 0
        self.empty = 0

    async def turn(self) -> None:
        for process in self._processes:
            process.now_ms = process.clock.now_ms()
            self.answers += 1
            self.empty += not await process.take(1, 0)

    async def until(self, redis_up: bool) -> None:
        """Until all processes have noticed, and some more."""
        while any(bool(sample(process.engine, REDIS_UP)) != redis_up for process in self._processes):
            await self.turn()
        for _ in range(BEFORE_AND_AFTER):
            await self.turn()


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.extended)])
async def test_none_is_empty(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(cache_failover, "SWITCH_WAIT_S", PATIENCE_S)  # a switch takes a second on a slow machine
    async with queues(cassandra_address, own_redis.url, n) as opened:
        for process in opened:
            await process.send(*numbered(10))
        receives = Receives(opened)
        await receives.until(redis_up=True)
        own_redis.kill()
        await receives.until(redis_up=False)
        own_redis.start()
        await receives.until(redis_up=True)
        print(f"{n} processes: {receives.empty} of {receives.answers} answers are empty")
        assert receives.empty == 0
