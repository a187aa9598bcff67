"""The section `scaling`: deliveries a second of 1, 2 and 4 workers, and messages a second through 1, 2 and 4 APIs.

On a machine with few cores the processes compete with Cassandra and Redis: so each may use only a share of a core
(Linux, root), and the rate is bounded by the processes as long as the CPUs have time. Workers deliver a backlog that
was published while none ran; the rate counts from when all of them work until 95 % are delivered. Each API process has
connections of its own, as behind a balancer, and a queue of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter

import uvloop

from cns_pytest.http import fetch
from lab.bench.site import Site, api_processes, store
from lab.bench.tables import table
from lab.harness.processes import BIN, Process, plain_environment, stop_all
from lab.harness.service import OBSERVER
from lab.harness.waiting import wait_until
from lab.load import workloads
from lab.load.endpoints import Sink
from lab.load.queues import open_client
from lab.load.topics import open_topic

COUNTS = (1, 2, 4)
DELIVERIES, MESSAGES = 6_000, 4_000
"""For each worker, and for each API process."""
WORKER_SHARE, API_SHARE = 0.06, 0.1
"""The share of a core that each one takes."""
SUBSCRIPTIONS = 150
"""More than 100, so that the publishes pass the producers."""
CONNECTIONS = 8
DONE_SHARE = 0.95
RUN_S_MAX = 300.0
GROUPS = Path("/sys/fs/cgroup/cpu")
"""Control groups, version 1."""
MEMBERS = "cgroup.procs"
PERIOD_US = 50_000


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    delivered: dict[int, float] = {}
    sent: dict[int, float] = {}
    received: dict[int, float] = {}
    for count in COUNTS:
        with store() as place, api_processes(place, 1, scratch / f"workers-{count}") as site:
            delivered[count] = uvloop.run(_deliveries(site, count, seed))
        with store() as place, api_processes(place, count, scratch / f"apis-{count}") as site:
            sent[count], received[count] = uvloop.run(_calls(site, seed))
        print(f"{count}: {delivered[count]:.0f}, {sent[count]:.0f}, {received[count]:.0f}", flush=True)
    header = ("processes", "workers: deliveries/s", "× half as many", "API: sends/s", "× half as many")
    rows = [(count, *_cells(delivered, count), *_cells(sent, count), *_cells(received, count)) for count in COUNTS]
    return table((*header, "API: received and deleted/s", "× half as many"), rows)


def _cells(rates: Mapping[int, float], count: int) -> tuple[str, str]:
    half = rates.get(count // 2)
    return f"{rates[count]:,.0f}", f"{rates[count] / half:.2f}" if half else ""


async def _deliveries(site: Site, workers: int, seed: int) -> float:
    topic, sink = await open_topic(site.server, CONNECTIONS, seed, "scaled"), Sink()
    with _workers(site, 1):
        await topic.subscribe_sink(sink, raw=True, times=SUBSCRIPTIONS)
    sink.reset()
    goal = workers * DELIVERIES
    await topic.client.run(topic.stamped() for _ in range(-(-goal // SUBSCRIPTIONS)))
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, _workers(site, workers, WORKER_SHARE))
        first, began_s = len(sink.times_ns), perf_counter()
        await sink.await_count(int(DONE_SHARE * goal), RUN_S_MAX)
        rate = (len(sink.times_ns) - first) / (perf_counter() - began_s)
        sink.close()
    topic.client.close()
    return rate


@contextmanager
def _workers(site: Site, count: int, share: float = 0) -> Iterator[None]:
    """`cns worker` processes, from when all of them work; each with this share of a core, if it is not 0."""
    assert site.cluster is not None
    directory, started = site.cluster.directory, list[Process]()
    with ExitStack() as groups:
        try:
            for number in range(count):
                name = f"cns-worker-{count}-{number}"
                environment = plain_environment(**site.cluster.environment, CNS_DATA=str(directory / name))
                process = Process([BIN / "cns", "worker"], directory / f"{name}.said", environment, name=name)
                started.append(process)
                process.start()
                if share:
                    groups.enter_context(cpu_share(name, share)).write_text(f"{process.pid}")
            wait_until(lambda: _known_workers(site) == count, site.cluster.said)
            yield
        finally:
            stop_all(started)
            wait_until(lambda: _known_workers(site) == 0)


def _known_workers(site: Site) -> int:
    _, answer = fetch(f"{site.apis[0].url}/health", headers=OBSERVER)
    return len(json.loads(answer)["workers"])


async def _calls(site: Site, seed: int) -> tuple[float, float]:
    """Sends a second, and messages received and deleted a second, through all API processes together."""
    with ExitStack() as groups:
        for api in site.apis:
            groups.enter_context(cpu_share(f"cns-{api.name}", API_SHARE)).write_text(f"{api.pid}")
        clients = [await open_client(server, CONNECTIONS, seed, f"queue-{server.name}") for server in site.api_servers]
        rates = []
        for workload in (workloads.send, workloads.receive_delete):
            figures = await asyncio.gather(*[workload(client, MESSAGES) for client in clients])
            rates.append(sum(each.units for each in figures) / max(each.seconds for each in figures))
        for client in clients:
            client.close()
    return rates[0], rates[1]


@contextmanager
def cpu_share(name: str, share: float) -> Iterator[Path]:
    """A control group whose processes use `share` of a core together. A process whose id is written to the yielded file
    joins it, with the threads and children that it starts. Those that live at the end of the block are bounded no more.
    """
    group = GROUPS / name
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
        (group / "cpu.cfs_quota_us").write_text(f"{round(PERIOD_US * share)}")
        yield group / MEMBERS
    finally:
        for member in (group / MEMBERS).read_text().split():
            (GROUPS / MEMBERS).write_text(member)
        group.rmdir()
