"""The cluster form under fault: its processes, Redis and Cassandra, of which a round kills one and starts it again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load.signing import Credentials
from cns_backend import schema
from cns_common.cassandra.session import CassandraAddress
from faults.cluster.plan import API, NODE, REDIS, WORKER
from faults.service.resources import RoundResources, create_resources
from tests.cluster import Cluster, Process
from tests.keyspace import aside, keyspace
from tests.own_redis import OwnRedis
from tests.servers import Ring, fresh_keyspace

RING_REPLICATION = 3


@dataclass(frozen=True, slots=True)
class Site:
    """`ring` is set if Cassandra nodes are killed."""

    place: CassandraAddress
    redis: OwnRedis
    cluster: Cluster
    ring: Ring | None = None

    @property
    def port(self) -> int:
        """The load balancer's."""
        return self.cluster.balancer.port

    def kill(self, kind: str, victim: int) -> None:
        """Send SIGKILL and wait until the process has ended."""
        self._kill_and_start(kind, victim)[0]()

    def start_again(self, kind: str, victim: int) -> None:
        """Start the process and wait until it is ready."""
        self._kill_and_start(kind, victim)[1]()

    def _kill_and_start(self, kind: str, victim: int) -> tuple[Callable[[], None], Callable[[], None]]:
        cluster, ring = self.cluster, self.ring or Ring()
        table: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            REDIS: (self.redis.kill, self.redis.start),
            WORKER: (lambda: _kill(cluster.workers[victim]), lambda: cluster.start_worker(victim)),
            API: (lambda: _kill(cluster.apis[victim]), lambda: cluster.start_api(victim)),
            NODE: (lambda: ring.kill(victim + 1), lambda: ring.restart(victim + 1)),
        }
        return table[kind]

    def ended(self) -> list[str]:
        return [process.name for process in self.cluster.processes if not process.is_running()]

    async def resources(self, receiver_port: int, journal: Path) -> RoundResources:
        """Make a new account with new queues, topics and subscriptions."""
        keys = self.cluster.account()
        credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
        return await create_resources(self.port, credentials, receiver_port, journal)


@contextmanager
def site(directory: Path, ring: Ring | None = None) -> Iterator[Site]:
    """Two API processes, two Celery workers and their own Redis, in a new keyspace of the ring or single node."""
    with ExitStack() as stack:
        place = stack.enter_context(_ring_keyspace(ring) if ring else keyspace())
        redis = OwnRedis(directory)
        stack.callback(redis.kill)
        redis.start()
        environment = {
            "CNS_CASSANDRA": ",".join(f"{host}:{place.port}" for host in place.hosts),
            "CNS_CASSANDRA_KEYSPACE": place.keyspace,
            "CNS_REDIS": redis.url,
            "CNS_TEST_CLOCK": "true",
        }
        cluster = Cluster(directory, environment)
        stack.callback(cluster.stop)
        cluster.start()
        yield Site(place, redis, cluster, ring)


@contextmanager
def _ring_keyspace(ring: Ring) -> Iterator[CassandraAddress]:
    """A keyspace with a copy on every node. It is not dropped: the ring's data is temporary."""
    hosts = tuple(host for host, _ in ring.addresses)
    place = CassandraAddress(hosts=hosts, port=ring.addresses[0][1], keyspace=fresh_keyspace())
    aside(schema.apply(place, RING_REPLICATION))
    yield place


def _kill(process: Process) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait_end()
