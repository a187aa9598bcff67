"""The cluster form under fault: its processes, Redis and Cassandra. A round kills one and starts it again, or cuts one
off from Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from lab.faults.cluster.linked_redis import LinkedRedis
from lab.faults.cluster.plan import API, CLOCKS, CLOCKS_WRONG_S, NODE, PARTITION, REDIS, REPLICA, WORKER
from lab.faults.service.resources import RoundResources, create_resources
from lab.faults.service.wire import OutcomeUnknown, Refused, Wire
from lab.harness.cluster import Cluster
from lab.harness.keyspace import aside, keyspace
from lab.harness.own_redis import OwnRedis
from lab.harness.processes import Process
from lab.harness.servers import Ring, fresh_keyspace
from lab.harness.signing import Credentials
from lab.harness.wrong_clock import with_wrong_clock

RING_REPLICATION = 3
KNOWN_S = 60.0
POLL_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Site:
    """`ring` is set if Cassandra nodes are killed, `links` if processes reach Redis by links that can be cut."""

    place: CassandraAddress
    redis: OwnRedis
    cluster: Cluster
    ring: Ring | None = None
    links: LinkedRedis | None = field(default=None, kw_only=True)

    @property
    def port(self) -> int:
        """The load balancer's."""
        return self.cluster.balancer.port

    def kill(self, kind: str, victim: int) -> None:
        """Send SIGKILL and wait until the process has ended, or cut it off."""
        self._kill_and_start(kind, victim)[0]()

    def start_again(self, kind: str, victim: int) -> None:
        """Start the process and wait until it is ready."""
        self._kill_and_start(kind, victim)[1]()

    def _kill_and_start(self, kind: str, victim: int) -> tuple[Callable[[], None], Callable[[], None]]:
        cluster, ring = self.cluster, self.ring or Ring()
        table: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            REDIS: (self.redis.kill, self.redis.start),
            WORKER: (lambda: _kill(cluster.workers[victim]), lambda: cluster.start_again(cluster.workers[victim])),
            API: (lambda: _kill(cluster.apis[victim]), lambda: cluster.start_again(cluster.apis[victim])),
            CLOCKS: (lambda: _restart(cluster, CLOCKS_WRONG_S), lambda: _restart(cluster, (0, 0))),
            NODE: (lambda: ring.kill(victim + 1), lambda: ring.restart(victim + 1)),
        }
        if links := self.links:
            table |= {
                PARTITION: (lambda: links.cut(victim), lambda: links.heal(victim)),
                REPLICA: (links.kill_master, links.promote),
            }
        return table[kind]

    def ended(self) -> list[str]:
        return [process.name for process in self.cluster.processes if not process.is_running()]

    async def resources(self, receiver_port: int, journal: Path) -> RoundResources:
        """Make a new account with new queues, topics and subscriptions."""
        keys = self.cluster.account()
        credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
        for api in self.cluster.apis:
            await _wait_known(Wire(api.port, credentials))
        return await create_resources(self.port, credentials, receiver_port, journal)


@contextmanager
def site(directory: Path, ring: Ring | None = None, *, linked: bool = False, **settings: str) -> Iterator[Site]:
    """Two API processes, two Celery workers and their own Redis, in a new keyspace of the ring or single node. If
    `linked`, each reaches Redis by a link of its own. `settings` are `CNS_…` variables."""
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
            **settings,
        }
        cluster = Cluster(directory, environment)
        links = stack.enter_context(LinkedRedis(directory, redis)) if linked else None
        if links:
            links.link([*cluster.apis, *cluster.workers])
        stack.callback(cluster.stop)
        cluster.start()
        yield Site(place, redis, cluster, ring, links=links)


@contextmanager
def _ring_keyspace(ring: Ring) -> Iterator[CassandraAddress]:
    """A keyspace with a copy on every node. It is not dropped: the ring's data is temporary."""
    hosts = tuple(host for host, _ in ring.addresses)
    place = CassandraAddress(hosts=hosts, port=ring.addresses[0][1], keyspace=fresh_keyspace())
    aside(schema.apply(place, RING_REPLICATION))
    yield place


async def _wait_known(wire: Wire) -> None:
    """Wait until the API process knows the new account: on a busy machine the announcement may come late."""
    async with asyncio.timeout(KNOWN_S):
        while True:
            try:
                await wire.sns("ListTopics", {})
            except (OutcomeUnknown, Refused):
                await asyncio.sleep(POLL_INTERVAL_S)
            else:
                break
    wire.close()


def _kill(process: Process) -> None:
    process.kill()


def _restart(cluster: Cluster, ahead_s: Sequence[int]) -> None:
    """Stop each API process, and start it on a machine whose clock is so far ahead."""
    for index, seconds in enumerate(ahead_s):
        process = cluster.apis[index]
        process.stop()
        process.environment = with_wrong_clock(process.environment, seconds)
        cluster.start_again(cluster.apis[index])
