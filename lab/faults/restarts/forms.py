"""The forms in which the service runs in a round of restarts, and how each of their processes is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cns_common.process.supervisor import read_status
from cns_pytest.processes import exports
from lab.faults.cluster.leftovers import Logs
from lab.faults.cluster.processes import Site, site
from lab.faults.service.leftovers import find_complaints, find_leftovers
from lab.faults.service.processes import Service, running
from lab.faults.service.resources import RoundResources, create_resources
from lab.harness import commands
from lab.harness.cluster import fresh_store
from lab.harness.ports import free_port
from lab.harness.processes import stop_all
from lab.harness.signing import Credentials
from lab.harness.waiting import PATIENCE_S, wait_until

FORMS = ("restarts-embedded", "restarts-api-2", "restarts-cluster-up", "restarts-cluster-haproxy")
EMBEDDED, API_2, SUPERVISED, BALANCED = FORMS


class Supervised:
    """`cns up`, which starts its processes again."""

    def __init__(self, service: Service, settings: Mapping[str, str]) -> None:
        self._service = service
        self._settings = settings

    def names(self) -> list[str]:
        """The processes that can be replaced one at a time."""
        return list(self._service.pids())

    def replace(self, name: str, number: signal.Signals) -> None:
        """Send the signal to the process. Returns when its successor works."""
        pid = self._service.pids()[name]
        os.kill(pid, number)
        self.wait_ready({name: pid})

    def restart(self) -> None:
        """Replace all processes by new code. Returns when they work."""
        before = self._service.pids()
        done = commands.run("restart", "--data", self._service.data)
        assert done.returncode == 0, done.stderr
        self.wait_ready(before)

    def wait_ready(self, before: Mapping[str, int]) -> None:
        """Wait until all processes do their work, and none is that of before."""

        def is_ready() -> bool:
            found = read_status(self._service.data / "processes.json")
            return bool(found) and all(each.ready and each.pid not in (0, before.get(each.name)) for each in found)

        wait_until(lambda: not self._service.alive or is_ready(), PATIENCE_S, lambda: self._service.output)
        assert self._service.alive, self._service.output

    async def resources(self, receiver_port: int, journal: Path) -> RoundResources:
        if self._settings:
            keys = exports(commands.run("account", "create", environment=os.environ | self._settings).stdout)
            credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
        else:
            credentials = self._service.credentials()
        return await create_resources(self._service.port, credentials, receiver_port, journal, self._service.data)

    def leftovers(self) -> list[str]:
        """The faults found when the service is stopped."""
        if self._settings:
            return find_complaints(self._service.output.splitlines())
        return find_leftovers(self._service.data, self._service.output)


class Balanced:
    """As `Supervised`, but the processes are behind HAProxy, and started again as compose does."""

    def __init__(self, site: Site) -> None:
        self._cluster = site.cluster
        self._logs = Logs(site.cluster)
        self.resources = site.resources

    def names(self) -> list[str]:
        return [process.name for process in (*self._cluster.apis, *self._cluster.workers)]

    def replace(self, name: str, number: signal.Signals) -> None:
        cluster = self._cluster
        (process,) = [process for process in cluster.processes if process.name == name]
        process.send_signal(number)
        process.wait()
        cluster.start_again(process)

    def restart(self) -> None:
        for api in self._cluster.apis:
            self.replace(api.name, signal.SIGTERM)
        stop_all(self._cluster.workers)
        self._cluster.start_again(*self._cluster.workers)

    def leftovers(self) -> list[str]:
        return self._logs.complaints()


Form = Supervised | Balanced


@contextmanager
def running_form(kind: str, directory: Path) -> Iterator[Form]:
    if kind == BALANCED:
        # a process that stops is noticed by HAProxy first, as in docker-compose.scaled.yml
        with site(directory, CNS_STOP_DELAY_S="3") as made:
            yield Balanced(made)
        return
    with ExitStack() as stack:
        settings = stack.enter_context(fresh_store()) if kind == SUPERVISED else {}
        options = () if kind == EMBEDDED else ("--api", "2")
        service = stack.enter_context(running(free_port(), directory / "service", options=options, settings=settings))
        form = Supervised(service, settings)
        form.wait_ready({})
        yield form
