"""Cassandra, Redis and API processes for a measurement of the cluster form, each process with a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cns_common.cassandra.connection import CassandraAddress
from lab.bench.servers import NO_WORKER, service
from lab.harness import servers
from lab.harness.cluster import Cluster, running, settings_in
from lab.harness.keyspace import keyspace, quick_sessions, ring_keyspace
from lab.harness.processes import Process
from lab.harness.server import Server
from lab.harness.signing import Credentials
from lab.load.caller import Caller
from lab.load.queues import Client, open_client
from lab.load.rest_caller import RestCaller
from lab.measure import statement_count

EMBEDDED = "embedded"


@contextmanager
def store(nodes: int = 1) -> Iterator[CassandraAddress]:
    """Cassandra, a node or a ring of several, and Redis; at the end stop those that were not running before."""
    ours = servers.names_to_start()
    before = servers.running(ours)
    try:
        with ExitStack() as stack:
            stack.enter_context(quick_sessions())
            if nodes == 1:
                yield stack.enter_context(keyspace())
            else:
                yield ring_keyspace(stack.enter_context(servers.Ring(nodes)))
    finally:
        servers.stop(servers.running(ours) - before)


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
def api_processes(place: CassandraAddress, processes: int, directory: Path, *, counted: bool = False) -> Iterator[Site]:
    """API processes behind a balancer, without workers. The account is older than they are, so that all know it."""
    directory.mkdir(parents=True, exist_ok=True)
    out = directory / "statements" if counted else None
    counting = statement_count.environment(out) if out else {}
    cluster = Cluster(directory, {**settings_in(place), **counting}, processes, 0)
    keys = cluster.account()
    credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
    with running(cluster):
        balancer = cluster.balancer
        server = Server(name="cluster", port=balancer.port, pid=balancer.pid, credentials=credentials, data=directory)
        yield Site([api.port for api in cluster.apis], server, cluster, out)
