"""Messages a second through 1, 2 and 4 API processes on one cluster, and how busy the CPUs were.

    python -m lab.bench.api_scaling [--apis 1,2,4] [--messages 4000] [--connections 8] [--cpu 0.1]

Each process may use only `--cpu` of a core, so that the rate is bounded by the processes while Cassandra and Redis have
time. Each has `--connections` of its own, as behind a balancer, and a queue of its own: `--messages` of 1 KiB are sent,
then received and deleted one by one. It takes Cassandra and Redis as the tests do; Linux, root.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import uvloop

from lab.bench.sections.cluster import backend_servers
from lab.harness.cluster import Cluster, fresh_store, running
from lab.harness.server import Server
from lab.harness.signing import Credentials
from lab.load.queues import Client, open_client, receive_delete, send
from lab.measure.cpu_share import busy_and_all, cpu_share
from lab.measure.figures import Figures

Workload = Callable[[Client, int], Awaitable[Figures]]
WORKLOADS: dict[str, Workload] = {"send": send, "receive, delete": receive_delete}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--apis", default="1,2,4")
    parser.add_argument("--messages", type=int, default=4_000, help="through each process")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--cpu", type=float, default=0.1, help="the share of a core that a process may use")
    given = parser.parse_args()
    print("| API processes | operation | messages a second | × half as many | CPUs busy |\n|---|---|---|---|---|")
    rates: dict[tuple[str, int], float] = {}
    for apis in [int(number) for number in given.apis.split(",")]:
        for name, (rate, busy) in measure(apis, given.messages, given.connections, given.cpu).items():
            rates[name, apis] = rate
            half = rates.get((name, apis // 2))
            times = f"{rate / half:.2f}" if half and apis > 1 else ""
            print(f"| {apis} | {name} | {rate:,.0f} | {times} | {busy:.0%} |", flush=True)


def measure(apis: int, messages: int, connections: int, cpu: float) -> dict[str, tuple[float, float]]:
    """Messages a second and the busy share of all CPUs, by operation."""
    with tempfile.TemporaryDirectory() as directory, backend_servers(), fresh_store() as store, ExitStack() as groups:
        cluster = Cluster(Path(directory), store, api_processes=apis, worker_processes=0)
        keys = cluster.account()
        credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
        members = [groups.enter_context(cpu_share(f"cns-api-{number}", cpu)) for number in range(apis)]
        with running(cluster):
            for api, member in zip(cluster.apis, members, strict=True):
                member.write_text(f"{api.pid}")
            servers = [
                Server(
                    name=api.name,
                    port=api.port,
                    pid=api.pid,
                    credentials=credentials,
                    data=Path(directory) / api.name,
                )
                for api in cluster.apis
            ]
            return uvloop.run(_measure(servers, messages, connections))


async def _measure(servers: list[Server], messages: int, connections: int) -> dict[str, tuple[float, float]]:
    clients = [await open_client(server, connections, at, f"queue-{at}") for at, server in enumerate(servers)]
    found: dict[str, tuple[float, float]] = {}
    for name, workload in WORKLOADS.items():
        before = busy_and_all()
        figures = await asyncio.gather(*[workload(client, messages) for client in clients])
        after = busy_and_all()
        rate = sum(each.units for each in figures) / max(each.seconds for each in figures)
        found[name] = rate, (after[0] - before[0]) / (after[1] - before[1])
    for client in clients:
        client.close()
    return found


if __name__ == "__main__":
    main()
