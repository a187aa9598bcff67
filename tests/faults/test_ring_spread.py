"""The writes of one queue over a ring of three nodes, by the owners of its partitions. Run by `make test-ring`.

There is one copy of each row, so that a write counts at one node.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack

import msgspec
import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.metadata import Murmur3Token
from cassandra.policies import RoundRobinPolicy

from cns_common.cassandra.connection import CassandraAddress
from cqs.engines.cluster.options import NUMBER_OF_PARTITIONS
from lab.harness.ring_engine import Place, make_keyspace, process
from lab.harness.servers import Ring
from tests.conformance.support import QueueFixture, numbered

NODES = 3
PROCESSES = 8
PARTITIONS = 100
SENDS = 1_500
"""Batches of each process, of `BATCH` messages each: so many that each of its partitions gets some."""
BATCH = 2
APART_MAX = 0.2
"""The largest accepted difference of a node's share from an equal one."""

pytestmark = pytest.mark.ring


async def _send_from(place: CassandraAddress, processes: int, partitions: int) -> str:
    """Returns the queue's id."""
    async with AsyncExitStack() as stack:
        users = [await stack.enter_async_context(process(Place(place))) for _ in range(processes)]
        queues = [QueueFixture(user.engine, user.clock) for user in users]
        q = msgspec.structs.replace(queues[0].q, options=((NUMBER_OF_PARTITIONS, str(partitions)),))
        for queue in queues:
            queue.q = q
        await asyncio.gather(*map(_send, queues))
        return q.id


async def _send(queue: QueueFixture) -> None:
    for _ in range(SENDS):
        await queue.send(*numbered(BATCH))


def _writes_by_node(place: CassandraAddress, queue_id: str) -> tuple[Counter[str], int]:
    """How many of the queue's messages each node stores, and in how many partitions they are."""
    profile = ExecutionProfile(RoundRobinPolicy(), request_timeout=60)
    with Cluster(place.hosts, place.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cluster:
        session = cluster.connect(place.keyspace)
        rows = session.execute("SELECT token(queue, bucket), queue, count(*) FROM cqs_messages GROUP BY queue, bucket")
        found = [(Murmur3Token(token), count) for token, queue, count in rows if queue == queue_id]
        owners = cluster.metadata.token_map
        by_node: Counter[str] = Counter()
        for token, count in found:
            (node,) = owners.get_replicas(place.keyspace, token)
            by_node[node.address] += count
        return by_node, len(found)


async def test_partitions_spread_one_queue_over_the_ring(ring: Ring, capfd: pytest.CaptureFixture[str]) -> None:
    place = await make_keyspace(ring, copies=1)
    queue_id = await _send_from(place, PROCESSES, PARTITIONS)
    by_node, partitions = await asyncio.to_thread(_writes_by_node, place, queue_id)
    equal = PROCESSES * SENDS * BATCH / NODES
    apart = {node: round(count / equal - 1, 3) for node, count in sorted(by_node.items())}
    with capfd.disabled():
        print(json.dumps({"partitions": partitions, "messages": by_node.total(), "apart from equal": apart}))
    assert by_node.total() == PROCESSES * SENDS * BATCH
    assert partitions == PROCESSES * PARTITIONS
    assert len(by_node) == NODES
    assert max(map(abs, apart.values())) <= APART_MAX


async def test_with_one_partition_a_process_writes_to_one_node(ring: Ring) -> None:
    place = await make_keyspace(ring, copies=1)
    queue_id = await _send_from(place, 1, 1)
    by_node, partitions = await asyncio.to_thread(_writes_by_node, place, queue_id)
    assert (list(by_node.values()), partitions) == ([SENDS * BATCH], 1)
