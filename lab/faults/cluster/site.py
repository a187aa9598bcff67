"""The cluster form under fault: its processes, Redis and Cassandra. A round kills one and starts it again, or cuts one
off from Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import redis
from botocore.exceptions import BotoCoreError, ClientError

from cns_common.cassandra.connection import CassandraAddress
from lab.faults.cluster.plan import API, CLOCKS, CLOCKS_WRONG_S, NODE, PARTITION, REDIS, REPLICA, WORKER
from lab.faults.service.resources import ResourceMaker, RoundResources
from lab.harness.cluster import Cluster, settings_in
from lab.harness.keyspace import keyspace, ring_keyspace
from lab.harness.own_redis import OwnRedis
from lab.harness.processes import HOST, credentials_in
from lab.harness.servers import Ring
from lab.harness.signing import Credentials
from lab.harness.tcp_proxy import TcpProxy
from lab.harness.waiting import wait_until
from lab.harness.wrong_clock import with_wrong_clock


class LinkedRedis:
    """A Redis that each process of a cluster reaches by a link of its own: a link is cut, or all links lead to a
    promoted replica."""

    def __init__(self, directory: Path, cluster: Cluster, master: OwnRedis, stack: ExitStack) -> None:
        self._master = master
        self._replica = OwnRedis(directory)
        stack.callback(self._replica.kill)
        self.links: list[TcpProxy] = []
        for process in (*cluster.apis, *cluster.workers):
            link = stack.enter_context(TcpProxy(master.port))
            process.environment = {**process.environment, "CNS_REDIS": link.redis_url}
            self.links.append(link)

    def kill_master(self) -> None:
        """Kill the master when a replica has all its keys."""
        with redis.Redis(port=self._master.port) as master:
            master.config_set("repl-diskless-sync-delay", 0)
        self._replica.start()
        with redis.Redis(port=self._replica.port) as client:
            client.replicaof(HOST, str(self._master.port))
            wait_until(lambda: client.info("replication").get("master_link_status") == "up")
        self._master.kill()

    def promote(self) -> None:
        """Make the replica the master, to which all links lead."""
        with redis.Redis(port=self._replica.port) as client:
            client.replicaof("NO", "ONE")
        self._master, self._replica = self._replica, self._master
        for link in self.links:
            link.point_at(self._master.port)


@dataclass(frozen=True, slots=True)
class Site:
    """`ring` is set if Cassandra nodes are killed, `linked` if processes reach Redis by links that can be cut."""

    place: CassandraAddress
    redis: OwnRedis
    cluster: Cluster
    ring: Ring | None = None
    linked: LinkedRedis | None = None

    def kill(self, kind: str, victim: int) -> None:
        """Send SIGKILL and wait until the process has ended, or cut it off."""
        self._kill_and_start(kind, victim)[0]()

    def start_again(self, kind: str, victim: int) -> None:
        """Start the process and wait until it is ready."""
        self._kill_and_start(kind, victim)[1]()

    def _kill_and_start(self, kind: str, victim: int) -> tuple[Callable[[], None], Callable[[], None]]:
        cluster = self.cluster
        for of_kind, processes in ((WORKER, cluster.workers), (API, cluster.apis)):
            if kind == of_kind:
                return processes[victim].kill, partial(cluster.start_again, processes[victim])
        table = {
            REDIS: (self.redis.kill, self.redis.start),
            CLOCKS: (lambda: _restart(cluster, CLOCKS_WRONG_S), lambda: _restart(cluster, (0, 0))),
        }
        if ring := self.ring:
            table[NODE] = (lambda: ring.kill(victim + 1), lambda: ring.restart(victim + 1))
        if linked := self.linked:
            table[PARTITION] = (lambda: linked.links[victim].cut(), lambda: linked.links[victim].heal())
            table[REPLICA] = (linked.kill_master, linked.promote)
        return table[kind]

    def ended(self) -> list[str]:
        return [process.name for process in self.cluster.processes if not process.is_running()]

    def resources(self, receiver: str, journal: Path) -> RoundResources:
        """Make a new account with new queues, topics and subscriptions."""
        credentials = credentials_in(self.cluster.cns("account", "create"))
        for api in self.cluster.apis:
            wait_until(partial(_is_known, api.url, credentials), api.output)
        return ResourceMaker(self.cluster.balancer.port, credentials, receiver, journal).make()


@contextmanager
def site(directory: Path, ring: Ring | None = None, *, linked: bool = False, **settings: str) -> Iterator[Site]:
    """Two API processes, two Celery workers and their own Redis, in a new keyspace of the ring or single node. If
    `linked`, each reaches Redis by a link of its own. `settings` are `CNS_…` variables."""
    with ExitStack() as stack:
        place = ring_keyspace(ring) if ring else stack.enter_context(keyspace())
        redis = OwnRedis(directory)
        stack.callback(redis.kill)
        redis.start()
        cluster = Cluster(directory, {**settings_in(place, redis.url), "CNS_TEST_CLOCK": "true", **settings})
        links = LinkedRedis(directory, cluster, redis, stack) if linked else None
        stack.callback(cluster.stop)
        cluster.start()
        yield Site(place, redis, cluster, ring, links)


def _is_known(url: str, credentials: Credentials) -> bool:
    """Whether the API process knows the new account: on a busy machine the announcement may come late."""
    session = boto3.session.Session(credentials.key_id, credentials.secret, region_name=credentials.region)
    sns: Any = session.client("sns", endpoint_url=url)
    try:
        sns.list_topics()
    except (BotoCoreError, ClientError):
        return False
    return True


def _restart(cluster: Cluster, ahead_s: Sequence[int]) -> None:
    """Stop each API process, and start it on a machine whose clock is so far ahead."""
    for process, seconds in zip(cluster.apis, ahead_s, strict=True):
        process.stop()
        process.environment = with_wrong_clock(process.environment, seconds)
        cluster.start_again(process)
