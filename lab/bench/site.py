"""Cassandra, Redis and API processes for a measurement of the cluster form, each process with a port of its own."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from lab.bench.servers import NO_WORKER, service
from lab.harness import servers
from lab.harness.cluster import Cluster, running
from lab.harness.keyspace import aside, keyspace, quick_sessions
from lab.harness.processes import Process
from lab.harness.server import Server
from lab.harness.signing import Credentials
from lab.load.caller import Caller
from lab.load.queues import Client, open_client
from lab.load.rest_caller import RestCaller
from lab.measure import statement_count

EMBEDDED = "embedded"
KEYSPACE = "bench"
COPIES = 3
"""The copies of each row, on a ring."""


@contextmanager
def store(nodes: int = 1) -> Iterator[CassandraAddress]:
    """Cassandra, a node or a ring of several, and Redis; at the end stop those that were not running before."""
    ours = servers.names_to_start()
    before = servers.running(ours)
    try:
        with quick_sessions(), keyspace() if nodes == 1 else _ring(nodes) as place:
            yield place
    finally:
        servers.stop(servers.running(ours) - before)


@contextmanager
def _ring(nodes: int) -> Iterator[CassandraAddress]:
    with servers.Ring(nodes) as started:
        hosts, ports = zip(*started.addresses, strict=True)
        place = CassandraAddress(hosts=hosts, port=ports[0], keyspace=KEYSPACE)
        aside(schema.apply(place, COPIES))
        yield place


def environment_of(place: CassandraAddress) -> dict[str, str]:
    """The settings of a service in this keyspace."""
    return {
        "CNS_STORE": "cassandra",
        "CNS_CASSANDRA": ",".join(f"{host}:{place.port}" for host in place.hosts),
        "CNS_CASSANDRA_KEYSPACE": place.keyspace,
        "CNS_CASSANDRA_REPLICATION": str(COPIES if len(place.hosts) > 1 else 1),
        "CNS_REDIS": servers.redis_url(),
        "CNS_MASTER_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    }


@dataclass(slots=True)
class Site:
    """A running service, and the keys of an account. `statements_out` counts the statements of its API processes."""

    ports: list[int]
    server: Server  # the whole; its port is the balancer's if there is one
    cluster: Cluster | None = None
    statements_out: Path | None = None
    by_rest: bool = False
    """Whether its callers use the REST API, through `cns.client`, instead of SQS."""

    @property
    def apis(self) -> list[Process]:
        return self.cluster.apis if self.cluster else []

    @property
    def api_servers(self) -> list[Server]:
        """Each API process for itself."""
        server = self.server
        return [
            Server(name=api.name, port=api.port, pid=api.pid, credentials=server.credentials, data=server.data)
            for api in self.apis
        ]

    def caller(self, drop_probability: float = 0) -> Caller:
        kind = RestCaller if self.by_rest else Caller
        return kind(self.ports, self.server.credentials, drop_probability=drop_probability)

    @asynccontextmanager
    async def clients(self, name: str, queues: int, connections: int, seed: int) -> AsyncIterator[list[Client]]:
        """One client for each new queue."""
        clients: list[Client] = []
        try:
            for number in range(queues):
                clients.append(await open_client(self.server, connections, seed + number, f"{name}-{number}"))
            yield clients
        finally:
            for client in clients:
                client.close()

    def statements(self) -> statement_count.Statements:
        if self.statements_out is None:
            return statement_count.Statements()
        return statement_count.statements_in(self.statements_out)

    def start(self, *apis: Process) -> None:
        """Start API processes again. Returns when they answer."""
        assert self.cluster is not None
        self.cluster.start_again(*apis)


@contextmanager
def site(engine: str, processes: int, directory: Path, *, nodes: int = 1) -> Iterator[Site]:
    """The service in the form that has this engine, on so many Cassandra nodes, with its statements counted."""
    if engine == EMBEDDED:
        command = [*NO_WORKER, "--api", str(processes)]
        with service(directory, None, command) as server:
            yield Site([server.port], server)
        return
    with store(nodes) as place, api_processes(place, processes, directory, counted=True) as started:
        yield started


@contextmanager
def api_processes(
    place: CassandraAddress,
    processes: int,
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    counted: bool = False,
) -> Iterator[Site]:
    """API processes behind a balancer, without workers. The account is older than they are, so that all know it."""
    directory.mkdir(parents=True, exist_ok=True)
    out = directory / "statements" if counted else None
    counting = statement_count.environment(out) if out else {}
    cluster = Cluster(directory, {**environment_of(place), **counting, **(settings or {})}, processes, 0)
    keys = cluster.account()
    credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
    with running(cluster):
        balancer = cluster.balancer
        server = Server(name="cluster", port=balancer.port, pid=balancer.pid, credentials=credentials, data=directory)
        yield Site([api.port for api in cluster.apis], server, cluster, out)
