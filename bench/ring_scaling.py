"""Messages a second on rings of 1, 2, 4 and 8 Cassandra nodes, each node with a share of a core.

    python -m bench.ring_scaling [--nodes 1,2,4,8] [--messages 4000] [--queues 8] [--cpu 0.1]

One API process, which may use what is left of the CPUs; one copy of each row, since with more copies a larger ring has
more to do for a message. Each queue writes into 16 partitions. `--messages` of 1 KiB for each queue are sent, then
received and deleted one by one. Nodes are warmed up before they are bounded. It takes Redis as the tests do, and a ring
of its own; Linux, root.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench.load.queues import Client, receive_delete, send
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
WORKLOADS = {"send": send, "receive, delete": receive_delete}
Rates = dict[str, tuple[float, float]]
"""Messages a second and the busy share of all CPUs, by operation."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default="1,2,4,8")
    parser.add_argument("--messages", type=int, default=4_000, help="of each queue")
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--cpu", type=float, default=0.1, help="the share of a core that a node may use")
    given = parser.parse_args()
    print("| Cassandra nodes | operation | messages a second | × half as many | CPUs busy |\n|---|---|---|---|---|")
    rates: dict[tuple[str, int], float] = {}
    for nodes in [int(number) for number in given.nodes.split(",")]:
        for name, (rate, busy) in measure(nodes, given.messages, given.queues, given.cpu).items():
            rates[name, nodes] = rate
            half = rates.get((name, nodes // 2))
            times = f"{rate / half:.2f}" if half and nodes > 1 else ""
            print(f"| {nodes} | {name} | {rate:,.0f} | {times} | {busy:.0%} |", flush=True)


def measure(nodes: int, messages: int, queues: int, cpu: float) -> Rates:
    with backend_servers(), servers.Ring(nodes) as ring, tempfile.TemporaryDirectory() as scratch:
        hosts = tuple(host for host, _ in ring.addresses)
        place = CassandraAddress(hosts=hosts, port=ring.addresses[0][1], keyspace=KEYSPACE)
        aside(schema.apply(place, 1))
        with running("service", SIDES[SERVICE], Path(scratch), environment_of(place)) as server:
            uvloop.run(_measure(server, "warm-up", WARM_UP, queues))
            with ExitStack() as groups:
                for host in hosts:
                    share = groups.enter_context(cpu_share(f"cns-node-{host}", cpu))
                    share.write_text(f"{listener(host, place.port)}")
                return uvloop.run(_measure(server, "measured", messages, queues))


async def _measure(server: Server, name: str, messages: int, queues: int) -> Rates:
    clients = [Client(server, await connect(server.port, CONNECTIONS), number) for number in range(queues)]
    for number, client in enumerate(clients):
        await client.use_queue(f"{name}-{number}", NumberOfPartitions=PARTITIONS)
    rates: Rates = {}
    for operation, workload in WORKLOADS.items():
        before = busy_and_all()
        figures = await asyncio.gather(*[workload(client, messages) for client in clients])
        after = busy_and_all()
        rate = sum(each.units for each in figures) / max(each.seconds for each in figures)
        rates[operation] = rate, (after[0] - before[0]) / (after[1] - before[1])
    for client in clients:
        client.close()
    return rates


if __name__ == "__main__":
    main()
