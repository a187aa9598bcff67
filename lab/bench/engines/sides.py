"""The compared engines, and the servers that serve them: all in one keyspace of one Cassandra node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cns_backend.engines import CLUSTER_ENGINES
from cns_common.cassandra.connection import CassandraAddress
from lab.bench.order.caller import Caller
from lab.bench.order.service import api_processes
from lab.bench.sections.cluster import environment_of, single_node
from lab.bench.sections.runs import SERVICE
from lab.harness.server import Server, python, running
from lab.harness.usage import cpu_s, listeners
from lab.load.queues import Client
from lab.load.wire import connect
from lab.measure import statement_count
from lab.measure.figures import US_PER_S

EMBEDDED, NAIVE = "embedded", "naive"
API_PROCESSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """An engine, its servers (the first is the one that is used alone), and the counts of their statements."""

    engine: str
    servers: tuple[Server, ...]
    statements_out: Path | None = None
    place: CassandraAddress | None = None

    @property
    def attributes(self) -> dict[str, str]:
        return {} if self.engine == NAIVE else {"Engine": self.engine}

    async def client(self, connections: int, seed: int, queue: str) -> Client:
        server = self.servers[0]
        client = Client(server, await connect(server.port, connections), seed)
        await client.use_queue(f"{self.engine}-{queue}", **self.attributes)
        return client

    def caller(self) -> Caller:
        return Caller([server.port for server in self.servers], self.servers[0].credentials)

    def statements(self) -> statement_count.Statements:
        if self.statements_out is None:
            return statement_count.Statements()
        return statement_count.statements_in(self.statements_out)

    def cpu_us(self) -> float:
        """CPU that the servers and Cassandra have used so far."""
        return sum(server.cpu_s() for server in self.servers) * US_PER_S + self.cassandra_us()

    def cassandra_us(self) -> float:
        """CPU that Cassandra has used so far."""
        if self.place is None:
            return 0.0
        return cpu_s(listeners(self.place.port, self.place.hosts[0])[0]) * US_PER_S


@contextmanager
def sides(scratch: Path) -> Iterator[Mapping[str, Side]]:
    """All engines, by name."""
    with ExitStack() as stack:
        place = stack.enter_context(single_node())
        embedded = stack.enter_context(running(EMBEDDED, [*SERVICE, "--no-worker"], scratch / EMBEDDED))
        site = stack.enter_context(api_processes(place, API_PROCESSES, scratch / "cluster"))
        out = scratch / "naive-statements"
        environment = {**environment_of(place), **statement_count.environment(out)}
        naive = stack.enter_context(running(NAIVE, python("lab.floor.naive"), scratch / NAIVE, environment))
        apis = tuple(
            Server(name="cluster", port=api.port, pid=api.pid, credentials=site.credentials, data=scratch)
            for api in site.apis
        )
        made = {EMBEDDED: Side(engine=EMBEDDED, servers=(embedded,))}
        for engine in CLUSTER_ENGINES:
            made[engine] = Side(engine=engine, servers=apis, statements_out=site.statements_out, place=place)
        made[NAIVE] = Side(engine=NAIVE, servers=(naive,), statements_out=out, place=place)
        yield made
