"""The forms in which the service runs in a round of restarts, and how each of their processes is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.faults.accounting.failing_endpoints import DELIVERY_TIMEOUT_S
from lab.faults.cluster.leftovers import Logs
from lab.faults.cluster.site import Site, site
from lab.faults.service.leftovers import find_complaints, find_leftovers
from lab.faults.service.resources import ResourceMaker, RoundResources
from lab.harness import commands
from lab.harness.cluster import fresh_store
from lab.harness.processes import credentials_in, stop_all
from lab.harness.running import Up, start

FORMS = ("restarts-embedded", "restarts-api-2", "restarts-cluster-up", "restarts-cluster-haproxy")
EMBEDDED, API_2, SUPERVISED, BALANCED = FORMS


class Supervised:
    """`cns up`, which starts its processes again."""

    def __init__(self, service: Up, settings: Mapping[str, str]) -> None:
        self._service = service
        self._settings = settings

    def names(self) -> list[str]:
        """The processes that can be replaced one at a time."""
        return [status.name for status in self._service.supervised()]

    def replace(self, name: str, number: signal.Signals) -> None:
        """Send the signal to the process. Returns when its successor works."""
        pid = self._pids()[name]
        os.kill(pid, number)
        self.wait_ready({name: pid})

    def restart(self) -> None:
        """Replace all processes by new code. Returns when they work."""
        before = self._pids()
        self._service.cns("restart")
        self.wait_ready(before)

    def wait_ready(self, before: Mapping[str, int]) -> None:
        """Wait until all processes do their work, and none is that of before."""

        def is_ready() -> bool:
            found = self._service.supervised()
            return bool(found) and all(each.ready and each.pid not in (0, before.get(each.name)) for each in found)

        self._service.process.wait_until(is_ready)

    def resources(self, receiver: str, journal: Path) -> RoundResources:
        output = self._service.said()
        if self._settings:
            output = commands.run("account", "create", environment=os.environ | self._settings).stdout
        maker = ResourceMaker(self._service.process.port, credentials_in(output), receiver, journal)
        return maker.make(self._service.data)

    def leftovers(self) -> list[str]:
        """The faults found when the service is stopped."""
        if self._settings:
            return find_complaints(self._service.said().splitlines())
        return find_leftovers(self._service.data, self._service.said())

    def _pids(self) -> dict[str, int]:
        return {status.name: status.pid for status in self._service.supervised()}


class Balanced:
    """As `Supervised`, but the processes are behind HAProxy, and started again as compose does."""

    def __init__(self, made: Site) -> None:
        self._cluster = made.cluster
        self._logs = Logs(made.cluster)
        self.resources = made.resources

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
        options = ("--test-clock",) if kind == EMBEDDED else ("--test-clock", "--api", "2")
        environment = {"CNS_DELIVERY_TIMEOUT_S": str(DELIVERY_TIMEOUT_S), **settings}
        service = start(directory / "service", *options, environment=environment)
        stack.callback(service.stop)
        form = Supervised(service, settings)
        form.wait_ready({})
        yield form
        assert service.stop() == 0, service.said()
