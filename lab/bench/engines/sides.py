"""The compared engines, and the servers that serve them: all in one keyspace of one Cassandra node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cns_backend.engines import CLUSTER_ENGINES
from cns_common.cassandra.connection import CassandraAddress
from lab.bench.servers import NO_WORKER, service
from lab.bench.site import EMBEDDED, Site, api_processes, store
from lab.harness.cluster import settings_in
from lab.harness.server import Server, python, running
from lab.harness.usage import cpu_s, listeners
from lab.load.queues import Client, open_client
from lab.measure import statement_count
from lab.measure.figures import US_PER_S

NAIVE = "naive"
API_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Side:
    """An engine, and the processes that serve it, of which the first is the one that is used alone."""

    engine: str
    site: Site
    servers: Sequence[Server]
    place: CassandraAddress | None = None

    @property
    def attributes(self) -> dict[str, str]:
        return {} if self.engine == NAIVE else {"Engine": self.engine}

    async def client(self, connections: int, seed: int, queue: str) -> Client:
        return await open_client(self.servers[0], connections, seed, f"{self.engine}-{queue}", **self.attributes)

    def cpu_us(self) -> float:
        """CPU that the servers and Cassandra have used so far."""
        return sum(server.cpu_s() for server in self.servers) * US_PER_S + self.cassandra_us()

    def cassandra_us(self) -> float:
        """CPU that Cassandra has used so far."""
        if self.place is None:
            return 0.0
        return sum(map(cpu_s, listeners(self.place.port, self.place.hosts[0]))) * US_PER_S


@contextmanager
def sides(scratch: Path) -> Iterator[list[Side]]:
    """All engines."""
    with ExitStack() as stack:
        place = stack.enter_context(store())
        embedded = stack.enter_context(service(scratch / EMBEDDED, None, NO_WORKER))
        site = stack.enter_context(api_processes(place, API_PROCESSES, scratch / "cluster", counted=True))
        out = scratch / "naive-statements"
        environment = {**settings_in(place), **statement_count.environment(out)}
        naive = stack.enter_context(running(NAIVE, python("lab.floor.naive"), scratch / NAIVE, environment))
        yield [
            Side(EMBEDDED, Site([embedded.port], embedded), [embedded]),
            *[Side(engine, site, site.api_servers, place) for engine in CLUSTER_ENGINES],
            Side(NAIVE, Site([naive.port], naive, statements_out=out), [naive], place),
        ]
