"""The end of a process of the engine `cqs`: whatever hangs, it ends."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cqs.engines import cluster
from cqs.engines.cluster import known_queues
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.fifo.engine import FifoQueues
from cqs.engines.cluster.known_queues import ClusterKnownQueues
from cqs.engines.cluster.ownership.background import BackgroundWork
from cqs.engines.cluster.servers.pool import CacheServers
from tests.conformance.support import POLL_S, QueueFixture
from tests.integration.cqs.engines.test_cluster_engine import open_with_session

SHORT_S = 0.01


async def _hang(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (FifoQueues, "close"),
        (ClusterKnownQueues, "_fill"),
        (BackgroundWork, "leave"),
        (CacheServers, "close"),
    ],
)
async def test_a_step_that_hangs_does_not_keep_it(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, part: type, name: str
) -> None:
    for module, limit in ((cluster, "CLOSE_S_MAX"), (known_queues, "FILL_CLOSE_S")):
        monkeypatch.setattr(module, limit, SHORT_S)
    async with asyncio.timeout(POLL_S):
        async with open_with_session(cassandra_address, "", Clock()) as (engine, _):
            monkeypatch.setattr(part, name, _hang)
            known = engine._known_queues
            queue = QueueFixture(engine, Clock())
            for shard in engine._servers.router.shards(queue.q.id):
                known.start_fill(await known.get(queue.q), shard)


@pytest.mark.parametrize(("step", "leaves"), [("close", False), ("save_all_hidden", True)])
async def test_a_server_that_hangs_keeps_no_other_one_from_saving(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, step: str, *, leaves: bool
) -> None:
    monkeypatch.setattr(cluster, "CLOSE_S_MAX", SHORT_S)
    monkeypatch.setattr(Cassandra, "leaves_site", leaves)
    saved: list[CacheFailover] = []
    async with asyncio.timeout(POLL_S):
        async with open_with_session(cassandra_address, "", Clock()) as (engine, _):
            (first,) = engine._servers._servers.values()
            other = await engine._servers._open("other", "")

            async def save(failover: CacheFailover) -> bool:
                if failover is first.failover:
                    await _hang()
                saved.append(failover)
                return True

            monkeypatch.setattr(CacheFailover, step, save)
    assert saved == [other.failover]
