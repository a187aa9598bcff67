"""The section `ring-work`: how much of the work each node of a ring does, for rings of two sizes.

Nodes that share a machine's cores add no speed, so the rate says nothing of how the design scales. Counts do: the
writes and reads that each node makes on its own tables (Cassandra's `system_views`) for the same messages. The design
scales linearly as far as their sum stays the same and each node has an equal part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cns_common.cassandra.connection import CassandraAddress
from deploy.servers.cql import select
from lab.bench.order.run import measured
from lab.bench.order.workload import Load
from lab.bench.site import api_processes, store
from lab.bench.tables import table

NODES = (3, 8)
QUEUES, MESSAGES = 60, 20
PROCESSES = 2
VIEWS = {"writes": "local_write_latency", "reads": "local_read_latency"}
"""Cassandra's virtual tables with the counts, each node's own."""


@dataclass(frozen=True, slots=True)
class Work:
    """Writes and reads of each node for one message, in the order of the nodes."""

    writes: list[float]
    reads: list[float]
    lost: float
    """Share of the messages."""


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    works = {nodes: _measure(scratch / f"{nodes}", nodes, seed) for nodes in NODES}
    first = works[NODES[0]]
    rows = [
        (
            nodes,
            f"{sum(work.writes):.1f}",
            _share(work.writes, first.writes),
            f"{max(work.writes):.2f}",
            f"{sum(work.reads):.1f}",
            _share(work.reads, first.reads),
            f"{max(work.reads):.2f}",
            f"{work.lost:.0%}",
        )
        for nodes, work in works.items()
    ]
    of_nodes = ("mean of a node", "busiest node")
    header = ("nodes", "writes a message: all nodes", *of_nodes, "reads a message: all nodes", *of_nodes, "lost")
    note = "In parentheses: the ratio to the smallest ring; linear is its number of nodes by this one's."
    return [*table(header, rows), "", note]


def _share(counts: Sequence[float], of_first: Sequence[float]) -> str:
    mean, first = sum(counts) / len(counts), sum(of_first) / len(of_first)
    return f"{mean:.2f} ({mean / first:.2f}; linear {len(of_first) / len(counts):.2f})"


def _measure(directory: Path, nodes: int, seed: int) -> Work:
    load = Load(
        name="ring-work", queues=QUEUES, senders=1, receivers=1, messages=MESSAGES, attributes={"Engine": "cqs"}
    )
    with store(nodes) as place, api_processes(place, PROCESSES, directory) as site:
        before = {name: counts(place, view) for name, view in VIEWS.items()}
        row = measured(load, site, seed)
        after = {name: counts(place, view) for name, view in VIEWS.items()}
    per_message = {
        name: [(after[name][host] - before[name][host]) / load.total for host in place.hosts] for name in VIEWS
    }
    return Work(**per_message, lost=row["loss rate ε"])


def counts(place: CassandraAddress, view: str) -> Counter[str]:
    """The operations of each node on the keyspace's tables since its start, by host."""
    found: Counter[str] = Counter()
    for host in place.hosts:
        for keyspace, count in select(host, place.port, f"SELECT keyspace_name, count FROM system_views.{view}"):
            if keyspace == place.keyspace.encode() and count is not None:
                found[host] += int.from_bytes(count, "big", signed=True)
    return found
