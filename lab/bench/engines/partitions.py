"""Measures the spread of one queue's messages over partitions, and so over the nodes of a ring (row P10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from cassandra.cluster import Cluster, Session

from cns_common.cassandra.connection import PROTOCOL_VERSION
from lab.bench.engines.sides import Side
from lab.bench.sections.depth import FILLERS
from lab.load import workloads

BODIES = {
    "cqs": ("cqs_messages", "queue, bucket"),
    "bdqs": ("bdqs_messages", "queue, bucket"),
    "cassieq": ("cassieq_messages", "queue, bucket"),
    "pipes": ("pipes_messages", "queue, pipe"),
    "naive": ("naive_waiting", "queue"),
}
"""The table of bodies of each engine, and the columns of its partition key."""
NODES, COPIES = 8, 3
"""The ring of the seed."""
FILL_S = 30.0
READ_S = 60.0
QUEUE = "partitions"
MIN_TOKEN, TOKENS = -(2**63), 2**64


class Partition(NamedTuple):
    token: int
    rows: int


async def partitions(side: Side, messages: int, seed: int) -> list[Partition]:
    """Send messages to a new queue, and find the partitions of their bodies. None for an engine without Cassandra."""
    if side.place is None:
        return []
    with Cluster(side.place.hosts, side.place.port, protocol_version=PROTOCOL_VERSION) as cluster:
        session = cluster.connect(side.place.keyspace)
        session.default_timeout = READ_S
        before = _rows(session, side.engine)
        client = await side.client(FILLERS, seed, QUEUE)
        await workloads.send_batches(client, messages, FILL_S)
        client.close()
        after = _rows(session, side.engine)
    return [Partition(token, rows - before[token]) for token, rows in after.items() if rows > before[token]]


def _rows(session: Session, engine: str) -> Counter[int]:
    """The rows of each partition of the bodies, by the partition's token."""
    table, key = BODIES[engine]
    read = f"SELECT token({key}) AS place, count(*) AS n FROM {table} GROUP BY {key}"
    return Counter({row.place: row.n for row in session.execute(read)})


def load_of_nodes(found: Iterable[Partition], nodes: int = NODES, copies: int = COPIES) -> Counter[int]:
    """Rows by node, on a ring of nodes with equal ranges: a partition is on the node of its token and the next ones."""
    rows: Counter[int] = Counter()
    for token, count in found:
        first = (token - MIN_TOKEN) * nodes // TOKENS
        for copy in range(copies):
            rows[(first + copy) % nodes] += count
    return rows


def cells(found: list[Partition]) -> tuple[str, str, str, str]:
    """Partitions, rows of the largest, nodes used, share of the busiest."""
    if not found:
        return ("–",) * 4
    nodes, total = load_of_nodes(found), sum(partition.rows for partition in found)
    largest = max(partition.rows for partition in found)
    busiest = max(nodes.values()) / sum(nodes.values())
    return f"{len(found):,}", f"{largest:,} of {total:,}", f"{len(nodes)}", f"{busiest:.0%}"
