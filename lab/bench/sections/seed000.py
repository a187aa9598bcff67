"""The section `seed000`: the workload and the columns of the performance table of CQS's first design (seed 000).

Two API processes behind a balancer, ten queues, two senders and two receivers for each; a burst of sends, and receivers
that work for 45 ms on each message until all are deleted. The seed ran on virtual machines with a ring of eight nodes;
here all runs on one machine, with one node, or with a ring of eight in the section `seed000-ring`.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import uvloop
from cassandra.cluster import Cluster as Driver

from cns_common.cassandra.connection import PROTOCOL_VERSION
from lab.bench.sections.cluster import COPIES, backend_servers, environment_of, ring
from lab.bench.sections.runs import QUIET_S_MAX
from lab.harness.cluster import Cluster, fresh_store, running
from lab.harness.server import Server
from lab.harness.signing import Credentials
from lab.harness.usage import await_quiet
from lab.load.checked_traffic import NS_PER_S, Traffic
from lab.load.queues import Client
from lab.load.wire import connect
from lab.measure.figures import NS_PER_MS, bar_cell, percentile
from lab.measure.stalls import StallLog, cluster_probes

QUEUES = 10
SENDERS = RECEIVERS = 2
WORK_S = 0.045
BURST_S = 10.0
RING_NODES = 8
MAX_MS = 1_000.0
"""Bar of the slowest call; the seed's are above five seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The columns of the seed's table. Rates are those of all queues together, times those of all calls."""

    goal: int  # messages per queue and second
    sent_per_s: float
    empty_percent: float
    operations_per_node_s: float
    mean_ms: float
    median_ms: float
    p95_ms: float
    p90_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow(Row):
    sent: int
    lost: int
    repeated: int
    slowest: str


SEED = tuple(
    Row(
        goal=goal,
        sent_per_s=sent,
        empty_percent=empty,
        operations_per_node_s=operations,
        mean_ms=mean,
        median_ms=median,
        p95_ms=p95,
        p90_ms=p90,
        max_ms=most,
    )
    for goal, sent, empty, operations, mean, median, p95, p90, most in (
        (10, 97, 95, 1156, 3, 2, 8, 4, 5252),
        (50, 420, 77, 1324, 10, 2, 22, 14, 5379),
        (75, 528, 65, 1299, 18, 3, 35, 19, 5406),
        (100, 559, 55, 1170, 26, 4, 50, 25, 5163),
        (250, 706, 29, 1195, 38, 12, 160, 67, 5060),
        (500, 775, 16, 1233, 40, 13, 150, 71, 5020),
        (1000, 718, 11, 1127, 47, 14, 150, 81, 5458),
    )
)


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    return _table(scratch / "seed000", seed)


def ring_table(scratch: Path, _n: int, seed: int) -> list[str]:
    return _table(scratch / "seed000-ring", seed, nodes=RING_NODES)


def _table(scratch: Path, seed: int, *, nodes: int = 1) -> list[str]:
    with api_pair(scratch, nodes=nodes) as pair:
        rows = uvloop.run(_measure(pair, seed))
    lines = [
        "| goal: messages/queue/s | sent/s | empty receives | calls per API process/s | mean ms | median | P95 | P90 |"
        " max | lost | repeated | slowest call: parts that stalled with it |",
        "|---" * 12 + "|",
    ]
    for row, theirs in zip(rows, SEED, strict=True):
        slowest = bar_cell(f"{row.max_ms:,.0f} ({theirs.max_ms:,.0f})", met=row.max_ms < MAX_MS)
        lines.append(
            f"| {row.goal} | {row.sent_per_s:,.0f} ({theirs.sent_per_s:.0f}) |"
            f" {row.empty_percent:.0f} % ({theirs.empty_percent:.0f} %) |"
            f" {row.operations_per_node_s:,.0f} ({theirs.operations_per_node_s:,.0f}) |"
            f" {row.mean_ms:.1f} ({theirs.mean_ms:.0f}) | {row.median_ms:.1f} ({theirs.median_ms:.0f}) |"
            f" {row.p95_ms:.1f} ({theirs.p95_ms:.0f}) | {row.p90_ms:.1f} ({theirs.p90_ms:.0f}) | {slowest} |"
            f" {row.lost} of {row.sent:,} | {row.repeated} | {row.slowest} |"
        )
    return [*lines, "", "In parentheses: the seed's figure."]


@dataclass(frozen=True, slots=True)
class ApiPair:
    """Two API processes behind a balancer, without workers, and the keys of an account."""

    cluster: Cluster
    credentials: Credentials

    @asynccontextmanager
    async def clients(self, name: str, queues: int, connections: int, seed: int) -> AsyncIterator[list[Client]]:
        """One client for each new queue, with connections to the balancer."""
        server = Server(
            name="cluster",
            port=self.cluster.balancer.port,
            pid=self.cluster.balancer.pid,
            credentials=self.credentials,
            data=self.cluster.directory,
        )
        clients = []
        try:
            for number in range(queues):
                client = Client(server, await connect(server.port, connections), seed + number)
                clients.append(client)
                await client.use_queue(f"{name}-{number}")
            yield clients
        finally:
            for client in clients:
                client.close()


@contextmanager
def single_store() -> Iterator[dict[str, str]]:
    with backend_servers(), fresh_store() as store:
        yield store


@contextmanager
def ring_store(nodes: int) -> Iterator[dict[str, str]]:
    with ring(nodes) as place:
        yield environment_of(place) | {"CNS_CASSANDRA_REPLICATION": str(COPIES)}


@contextmanager
def api_pair(directory: Path, *, nodes: int = 1) -> Iterator[ApiPair]:
    """The account is older than the API processes, so that all know it. `nodes` are those of Cassandra."""
    directory.mkdir()
    with single_store() if nodes == 1 else ring_store(nodes) as store:
        cluster = Cluster(directory, store, api_processes=2, worker_processes=0)
        keys = cluster.account()
        with running(cluster):
            yield ApiPair(cluster, Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"]))


@asynccontextmanager
async def stalls_of(started: Cluster) -> AsyncIterator[StallLog]:
    """Stalls of the cluster's parts within the block."""
    host, _, port = started.environment["CNS_CASSANDRA"].partition(",")[0].rpartition(":")
    with Driver([host], port=int(port), protocol_version=PROTOCOL_VERSION) as driver:
        session = await asyncio.to_thread(driver.connect, started.environment["CNS_CASSANDRA_KEYSPACE"])
        log = StallLog()
        apis = {api.name: api.port for api in started.apis}
        async with AsyncExitStack() as stack:
            probes = await stack.enter_async_context(cluster_probes(session, started.environment["CNS_REDIS"], apis))
            await stack.enter_async_context(log.watch(probes))
            yield log


async def _measure(pair: ApiPair, seed: int) -> list[MeasuredRow]:
    rows = []
    for goal in [row.goal for row in SEED]:
        async with pair.clients(f"seed-{goal}", QUEUES, SENDERS + RECEIVERS, seed) as clients:
            await_quiet(QUIET_S_MAX)
            row = await _row(pair.cluster, clients, goal)
            print(row, flush=True)
            rows.append(row)
    return rows


async def _row(started: Cluster, clients: list[Client], goal: int) -> MeasuredRow:
    traffic = Traffic()
    async with stalls_of(started) as stalls:
        began_s = perf_counter()
        senders = [
            asyncio.create_task(traffic.send_at_rate(client, lane, goal / SENDERS, BURST_S))
            for client in clients
            for lane in client.lanes[:SENDERS]
        ]
        receivers = [
            asyncio.create_task(traffic.receive_single(client, lane, WORK_S))
            for client in clients
            for lane in client.lanes[SENDERS:]
        ]
        await traffic.run(senders, receivers)
        took_s = perf_counter() - began_s
    times_ms = sorted(ns / NS_PER_MS for ns in traffic.times.took_ns)
    worst = max(traffic.times.slowest)
    return MeasuredRow(
        goal=goal,
        sent_per_s=traffic.check.sent / BURST_S,
        empty_percent=100 * traffic.times.empty / traffic.times.receives,
        operations_per_node_s=len(times_ms) / took_s / len(started.apis),
        mean_ms=statistics.fmean(times_ms),
        median_ms=percentile(times_ms, 50),
        p95_ms=percentile(times_ms, 95),
        p90_ms=percentile(times_ms, 90),
        max_ms=worst.took_ns / NS_PER_MS,
        sent=traffic.check.sent,
        lost=traffic.check.missing,
        repeated=traffic.check.repeated,
        slowest=f"{worst.operation} {worst.took_ns / NS_PER_S:.2f} s: {stalls.cause(worst.began_ns, worst.took_ns)}",
    )
