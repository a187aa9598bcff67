"""Two sites of one keyspace, each with a Cassandra node, a Redis, an API process and a worker of its own. The second
one's worker is in Celery."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from cns_pytest.http import fetch
from cns_pytest.processes import exports
from deploy.servers.cql import select
from lab.harness import commands
from lab.harness.own_redis import OwnRedis
from lab.harness.ports import free_port
from lab.harness.processes import BIN, HOST, ROOT, Process, plain_environment
from lab.harness.servers import Ring, fresh_keyspace
from lab.harness.service import OBSERVER, Samples, read_samples
from lab.harness.waiting import wait_until

NAMES = ("dc1", "dc2")
WORKERS = {
    "dc1": [str(BIN / "cns"), "worker"],
    "dc2": [str(BIN / "celery"), "-A", "cns_workers", "worker", "--hostname", "dc2@%h"],
}
SCHEMA_S = 60.0
HTTP_OK = 200


@dataclass
class RunningSite:
    name: str
    environment: dict[str, str]
    redis: OwnRedis
    api: Process
    worker: Process
    keys: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        for process in (self.api, self.worker):
            process.start()
        wait_until(lambda: self._page("/live")[0] == HTTP_OK, self.api.output)

    def kill_processes(self) -> None:
        for process in (self.api, self.worker):
            if process.is_running():
                process.kill()

    def kill_worker(self) -> None:
        self.worker.kill()

    def signal_api(self, number: signal.Signals) -> None:
        os.kill(self.api.pid, number)

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A `cns` command of this site."""
        done = commands.run(*words, environment={**os.environ, **self.environment})
        assert done.returncode == 0 or not check, done.stderr
        return done

    def client(self, name: str, *, attempts: int = 1, read_s: float = 20.0) -> Any:
        config = Config(retries={"total_max_attempts": attempts}, read_timeout=read_s)
        return boto3.client(
            name,
            endpoint_url=self.api.url,
            aws_access_key_id=self.keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.keys["AWS_SECRET_ACCESS_KEY"],
            region_name="us-east-1",
            config=config,
        )

    def health(self) -> dict[str, Any]:
        health: dict[str, Any] = json.loads(fetch(f"{self.api.url}/health", headers=OBSERVER)[1])
        return health

    def samples(self) -> Samples:
        return read_samples(fetch(f"{self.api.url}/metrics", headers=OBSERVER)[1].decode())

    def await_workers(self, count: int) -> None:
        """Wait until so many workers of all sites say that they work."""
        wait_until(lambda: len(self.health()["workers"]) == count, lambda: str(self.health()))

    def _page(self, path: str) -> tuple[int, bytes]:
        """The page, or the status 0 while nobody answers: at its start, or between standing by and work."""
        try:
            return fetch(f"{self.api.url}{path}", headers=OBSERVER)
        except OSError:
            return 0, b""

    def is_ready(self) -> bool:
        return self._page("/ready")[0] == HTTP_OK

    def wait_ready(self) -> None:
        wait_until(self.is_ready, self.output)

    def output(self) -> str:
        return f"{self._page('/health')}\n{self.api.output()}\n{self.worker.output()}"

    def stands_by(self) -> bool:
        status, page = self._page("/health")
        return status != 0 and not json.loads(page)["site"]["acting"]


@contextmanager
def two_sites(directory: Path, ring: Ring) -> Iterator[tuple[RunningSite, RunningSite]]:
    """Both started; none is active yet."""
    shared = {
        "CNS_STORE": "cassandra",
        "CNS_CASSANDRA_KEYSPACE": fresh_keyspace(),
        "CNS_CASSANDRA_SITES": ",".join(f"{name}:1" for name in NAMES),
        "CNS_MASTER_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
        "CNS_RECREATE_WAIT_S": "0",
    }
    with ExitStack() as stack:
        sites = [_site(stack, directory, shared, *one) for one in zip(NAMES, ring.addresses, strict=True)]
        _make_keyspace(shared["CNS_CASSANDRA_KEYSPACE"], ring)
        for site in sites:
            site.start()
        yield sites[0], sites[1]


def _make_keyspace(keyspace: str, ring: Ring) -> None:
    """As `cns schema apply`, which waits for all nodes after each table: for seconds on a busy machine."""
    host, port = ring.addresses[0]
    sites = tuple([(name, 1) for name in NAMES])
    place = CassandraAddress(hosts=(host,), port=port, keyspace=keyspace, data_centre=NAMES[0], sites=sites)
    profile = ExecutionProfile(WhiteListRoundRobinPolicy([host]), request_timeout=SCHEMA_S)
    with Cluster(
        [host], port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, max_schema_agreement_wait=0
    ) as cluster:
        session = cluster.connect()
        for text in schema.show(place, 1):
            session.execute(text)
    wait_until(lambda: len({str(_schema_version(*address)) for address in ring.addresses}) == 1)


def _schema_version(host: str, port: int) -> object:
    return select(host, port, "SELECT schema_version FROM system.local")


def _site(
    stack: ExitStack, directory: Path, shared: dict[str, str], name: str, cassandra: tuple[str, int]
) -> RunningSite:
    redis = OwnRedis(directory)
    stack.callback(redis.kill)
    redis.start()
    port = free_port()
    environment = {
        **shared,
        "CNS_CASSANDRA": f"{cassandra[0]}:{cassandra[1]}",
        "CNS_CASSANDRA_DATA_CENTRE": name,
        "CNS_REDIS": redis.url,
        "CNS_HOST": HOST,
        "CNS_PORT": str(port),
        "CNS_DATA": str(directory / name),
    }
    logs = [directory / f"{name}-{what}.log" for what in ("api", "worker")]
    api = Process([BIN / "cns", "api"], logs[0], plain_environment(**environment), port=port)
    worker_environment = {**environment, "CNS_DATA": str(directory / f"{name}-worker")}
    worker = Process(WORKERS[name], logs[1], plain_environment(**worker_environment), cwd=ROOT)
    site = RunningSite(name, environment, redis, api, worker)
    stack.callback(site.kill_processes)
    return site


def new_account(site: RunningSite, *others: RunningSite) -> None:
    keys = exports(site.run("account", "create").stdout)
    for one in (site, *others):
        one.keys = keys
