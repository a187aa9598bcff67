"""The service under an experiment: the embedded form, or API processes of a cluster, each with a port of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cns_common.cassandra.connection import CassandraAddress
from cns_pytest.processes import exports
from lab.bench.order.caller import Caller
from lab.bench.order.faults import Faults
from lab.bench.order.rest_caller import RestCaller
from lab.bench.sections.cluster import environment_of, ring, single_node
from lab.bench.sections.runs import SERVICE
from lab.harness.ports import free_port
from lab.harness.processes import ANNOUNCEMENT, ROOT, Process, plain_environment, stop_all
from lab.harness.server import running
from lab.harness.signing import Credentials
from lab.measure import statement_count

EMBEDDED = "embedded"
CNS = str(Path(sys.executable).parent / "cns")


@dataclass(slots=True)
class Site:
    """`statements` counts those of all API processes; the embedded form has none."""

    ports: list[int]
    credentials: Credentials
    statements_out: Path | None = None
    apis: list[Process] = field(default_factory=list)
    data: Path | None = None
    by_rest: bool = False
    """Whether its callers use the REST API, through `cns.client`, instead of SQS."""

    def caller(self, drop_probability: float = 0) -> Caller:
        kind = RestCaller if self.by_rest else Caller
        return kind(self.ports, self.credentials, drop_probability=drop_probability)

    def statements(self) -> statement_count.Statements:
        if self.statements_out is None:
            return statement_count.Statements()
        return statement_count.statements_in(self.statements_out)


@contextmanager
def service(engine: str, processes: int, directory: Path, *, on_ring: bool = False) -> Iterator[Site]:
    """Run it in the block: `processes` API processes for an engine of the cluster form, on one Cassandra node or a
    ring of three."""
    if engine == EMBEDDED:
        command = [*SERVICE, "--no-worker", "--api", str(processes)]
        with running("service", command, directory, listeners=processes) as server:
            yield Site([server.port], server.credentials, data=server.data / "store")
        return
    with ring() if on_ring else single_node() as place, api_processes(place, processes, directory) as site:
        yield site


@contextmanager
def api_processes(
    place: CassandraAddress, processes: int, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Site]:
    """`settings` are more settings of the processes."""
    out = directory / "statements"
    counting = statement_count.environment(out)
    environment = {**environment_of(place), **(settings or {})}
    keys = _account(environment, directory)
    apis = [_api(environment | counting, directory, number) for number in range(processes)]
    try:
        for api in apis:
            api.start()
        for api in apis:
            _wait_ready(api)
        yield Site([api.port for api in apis], keys, statements_out=out, apis=apis)
    finally:
        stop_all([api for api in apis if api.is_running()])


def _account(environment: Mapping[str, str], directory: Path) -> Credentials:
    """Create an account."""
    words = [CNS, "account", "create", "--data", str(directory / "command")]
    done = subprocess.run(
        words, env={**os.environ, **environment}, check=True, capture_output=True, text=True, cwd=ROOT
    )
    keys = exports(done.stdout)
    return Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])


def _api(environment: Mapping[str, str], directory: Path, number: int) -> Process:
    name, port = f"api-{number}", free_port()
    variables = {**environment, "CNS_PORT": str(port), "CNS_DATA": str(directory / name)}
    log = directory / f"{name}.log"
    return Process([CNS, "api"], log, plain_environment(**variables), name=name, port=port, cwd=ROOT)


def _wait_ready(api: Process) -> None:
    api.wait_printed(ANNOUNCEMENT)


def start_ended(apis: list[Process]) -> None:
    """Start the processes that do not run, and wait for all."""
    for api in apis:
        if not api.is_running():
            api.start()
    for api in apis:
        _wait_ready(api)


class Killer:
    """Kills processes, each after an exponential time, and starts them again."""

    def __init__(self, apis: list[Process], faults: Faults, random: Random) -> None:
        self._apis = apis
        self._faults = faults
        self._random = random
        self.kills = 0

    async def run(self) -> None:
        """Run until cancelled. A process may be down then."""
        await asyncio.gather(*[self._fate(api) for api in self._apis])

    async def _fate(self, api: Process) -> None:
        while self._faults.mttf_s:
            await asyncio.sleep(self._random.expovariate(1 / self._faults.mttf_s))
            self.kills += 1
            os.kill(api.pid, signal.SIGKILL)
            await asyncio.to_thread(api.wait)
            await asyncio.sleep(self._faults.mttr_s)
            api.start()
            await asyncio.to_thread(_wait_ready, api)
