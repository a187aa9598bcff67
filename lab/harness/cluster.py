"""A whole cluster, as an operator runs it on several machines: API processes behind a balancer, and Celery workers.

Each process has a port, a data directory and a log of its own. Cassandra and Redis are those that `environment` names;
`cluster` makes a keyspace for a test, and Redis keys begin with its name, so clusters on one server do not meet.
"""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from cns_common.cassandra.connection import CassandraAddress
from cns_pytest.http import is_up
from cns_pytest.processes import exports
from lab.harness import commands
from lab.harness.keyspace import COPIES, keyspace
from lab.harness.ports import free_port
from lab.harness.processes import ANNOUNCEMENT, BIN, HOST, ROOT, Process, plain_environment, stop_all
from lab.harness.servers import flush_prefix, program, redis_url
from lab.harness.waiting import wait_until

APIS_MAX = 4
"""The number of API servers in `deploy/haproxy.cfg`."""


@dataclass
class Cluster:
    """`environment` names Cassandra, the keyspace and Redis, and may hold any other setting of the processes."""

    directory: Path
    environment: Mapping[str, str]
    api_processes: int = 2
    worker_processes: int = 2
    apis: list[Process] = field(default_factory=list, init=False)
    workers: list[Process] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        assert self.api_processes <= APIS_MAX
        self.environment = {
            "CNS_PUBLIC_URL": f"http://{HOST}:{free_port()}",
            **self.environment,
        }
        self.apis = [self._api(number) for number in range(1, self.api_processes + 1)]
        self.workers = [self._worker(number) for number in range(1, self.worker_processes + 1)]
        self.balancer = self._balancer()

    @property
    def url(self) -> str:
        """The URL of the balancer."""
        return self.environment["CNS_PUBLIC_URL"]

    @property
    def processes(self) -> list[Process]:
        return [*self.workers, *self.apis, self.balancer]

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything. Returns when calls are answered and deliveries are made."""
        self.start_again(*self.processes)
        self.wait_ready()

    def start_again(self, *processes: Process) -> None:
        """Start these processes, each on its port. Returns when they answer, or work."""
        for process in processes:
            process.start()
        for process in processes:
            if process in self.workers:
                process.wait_printed('"worker.started"')
            elif process in self.apis:
                process.wait_printed(ANNOUNCEMENT)
                process.wait_until(lambda: is_up(f"{process.url}/live"))  # noqa: B023  # within this turn

    def stop(self) -> None:
        """All processes, in the order of their start."""
        for processes in (self.workers, self.apis, [self.balancer]):
            stop_all([process for process in processes if process.is_running()])

    def wait_ready(self) -> None:
        """Wait until the balancer passes calls on and every API process knows of a worker (if there is one)."""
        urls = [self.url, *(api.url for api in self.apis)] if self.workers else [self.url]
        path = "/ready" if self.workers else "/live"
        wait_until(lambda: all(is_up(url + path) for url in urls), self.said)

    def said(self) -> str:
        """The output of all processes."""
        return "\n".join(f"--- {process.name}\n{process.output()}" for process in self.processes)

    # -- commands -----------------------------------------------------------------------------------------------------

    def cns(self, *words: str | Path) -> str:
        """The output of a `cns` command, run as on a machine of the cluster."""
        return self.run(*words).stdout

    def run(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment, "CNS_DATA": str(self.directory / "command")}
        done = commands.run(*words, environment=environment)
        assert done.returncode == 0 or not check, done.stderr
        return done

    def account(self) -> dict[str, str]:
        """Create an account. Returns the AWS_… variables of its keys."""
        return exports(self.cns("account", "create"))

    # -- processes ----------------------------------------------------------------------------------------------------

    def _api(self, number: int) -> Process:
        port = free_port()
        return self._process(f"api-{number}", [BIN / "cns", "api"], port, CNS_PORT=str(port))

    def _worker(self, number: int) -> Process:
        name = f"worker-{number}"
        return self._process(name, [BIN / "celery", "-A", "cns_workers", "worker", "--hostname", f"{name}@%h"])

    def _balancer(self) -> Process:
        address = self.url.removeprefix("http://")
        apis = {f"CNS_API_{number}": f"{HOST}:{api.port}" for number, api in enumerate(self.apis, 1)}
        command: list[str | Path] = [program("haproxy"), "-db", "-f", ROOT / "deploy" / "haproxy.cfg"]
        return self._process("balancer", command, int(address.rpartition(":")[2]), CNS_BALANCER=address, **apis)

    def _process(self, name: str, command: list[str | Path], port: int = 0, **variables: str) -> Process:
        environment = plain_environment(**self.environment, CNS_DATA=str(self.directory / name), **variables)
        return Process(command, self.directory / f"{name}.said", environment, name=name, port=port, cwd=ROOT)


def settings_in(place: CassandraAddress, redis_server: str = "") -> dict[str, str]:
    """Settings of a cluster in this keyspace, by default with the tests' Redis."""
    return {
        "CNS_STORE": "cassandra",
        "CNS_CASSANDRA": ",".join(f"{host}:{place.port}" for host in place.hosts),
        "CNS_CASSANDRA_KEYSPACE": place.keyspace,
        "CNS_CASSANDRA_REPLICATION": str(COPIES if len(place.hosts) > 1 else 1),
        "CNS_REDIS": redis_server or redis_url(),
        "CNS_MASTER_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    }


@contextmanager
def fresh_store() -> Iterator[dict[str, str]]:
    """Settings of a new cluster: a keyspace on the tests' Cassandra, their Redis, a master key."""
    with keyspace() as place:
        try:
            yield settings_in(place)
        finally:
            with redis.Redis.from_url(redis_url()) as client:
                for owner in ("cqs", "cns"):
                    flush_prefix(client, f"{owner}:{place.keyspace}")


@contextmanager
def cluster(directory: Path, *, apis: int = 2, workers: int = 2, **settings: str) -> Iterator[Cluster]:
    """A running cluster with a keyspace of its own. `settings` are `CNS_…` variables."""
    with fresh_store() as store, running(Cluster(directory, {**store, **settings}, apis, workers)) as started:
        yield started


@contextmanager
def running(made: Cluster) -> Iterator[Cluster]:
    """Start the cluster, and stop it at the end."""
    try:
        made.start()
        yield made
    finally:
        made.stop()
