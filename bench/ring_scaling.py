"""Messages sent a second to rings of 1, 2, 4 and 8 Cassandra nodes, each node with a share of a core.

    python -m bench.ring_scaling [--nodes 1,2,4,8] [--messages 1000] [--queues 8] [--cpu 0.1]

One API process, which may use what is left of the CPUs; one copy of each row, since with more copies a larger ring has
more to do for a message. Each queue writes into 16 partitions, and gets `--messages` of 1 KiB, one by one. Nodes are
warmed up before they are bounded. It takes Redis as the tests do, and a ring of its own; Linux, root.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench.load.queues import Client, send
from bench.load.wire import connect
from bench.measure.cpu_share import busy_and_all, cpu_share
from bench.measure.processes import Server, listener, running
from bench.sections.cluster import SERVICE, SIDES, backend_servers, environment_of
from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from tests import servers
from tests.keyspace import aside

KEYSPACE = "cns_ring_scaling"
PARTITIONS = "16"
CONNECTIONS = 4
WARM_UP = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default="1,2,4,8")
    parser.add_argument("--messages", type=int, default=1_000, help="of each queue")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--cpu", type=float, default=0.1, help="the share of a core that a node may use")
    given = parser.parse_args()
    print("| Cassandra nodes | messages sent a second | × half as many | CPUs busy |\n|---|---|---|---|")
    rates: dict[int, float] = {}
    for nodes in [int(number) for number in given.nodes.split(",")]:
        rates[nodes], busy = measure(nodes, given.messages, given.queues, given.cpu)
        half = rates.get(nodes // 2)
        times = f"{rates[nodes] / half:.2f}" if half else ""
        print(f"| {nodes} | {rates[nodes]:,.0f} | {times} | {busy:.0%} |", flush=True)


def measure(nodes: int, messages: int, queues: int, cpu: float) -> tuple[float, float]:
    """Messages a second and the busy share of all CPUs."""
    with backend_servers(), servers.Ring(nodes) as ring, tempfile.TemporaryDirectory() as scratch:
        hosts = tuple(host for host, _ in ring.addresses)
        place = CassandraAddress(hosts=hosts, port=ring.addresses[0][1], keyspace=KEYSPACE)
        aside(schema.apply(place, 1))
        with running("service", SIDES[SERVICE], Path(scratch), environment_of(place)) as server:
            uvloop.run(_send(server, "warm-up", WARM_UP, queues))
            with ExitStack() as groups:
                for host in hosts:
                    share = groups.enter_context(cpu_share(f"cns-node-{host}", cpu))
                    share.write_text(f"{listener(host, place.port)}")
                return uvloop.run(_send(server, "measured", messages, queues))


async def _send(server: Server, name: str, messages: int, queues: int) -> tuple[float, float]:
    clients = [Client(server, await connect(server.port, CONNECTIONS), number) for number in range(queues)]
    for number, client in enumerate(clients):
        await client.use_queue(f"{name}-{number}", NumberOfPartitions=PARTITIONS)
    before = busy_and_all()
    figures = await asyncio.gather(*[send(client, messages) for client in clients])
    after = busy_and_all()
    for client in clients:
        client.close()
    rate = sum(each.units for each in figures) / max(each.seconds for each in figures)
    return rate, (after[0] - before[0]) / (after[1] - before[1])


if __name__ == "__main__":
    main()
