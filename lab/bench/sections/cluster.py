"""The sections `cluster` and `ring`: times and costs of sends, receives and deletes on Cassandra and Redis."""

from __future__ import annotations

import base64
import secrets
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from lab.bench.sections.runs import QUIET_S_MAX
from lab.harness import servers
from lab.harness.keyspace import aside, keyspace
from lab.harness.server import Server, python, running
from lab.harness.usage import await_quiet
from lab.load import queues, single_calls
from lab.measure.backends import Backends, Costs
from lab.measure.figures import Figures, median_run

CNS = shlex.quote(str(Path(sys.executable).parent / "cns"))
KEYSPACE = "bench"
COPIES = 3
CONNECTIONS = (1, 16, 64)
COSTS_AT = 16
"""The number of connections at which costs are shown."""
HALF = 0
P50_MS, P95_MS = 10.0, 25.0
"""Limits at half load."""


def _service(apis: int, options: str = "--no-worker") -> list[str]:
    """The command of API processes, by default without a worker. It prints the access keys for the bench."""
    where = "--data {data}"
    return [
        "sh",
        "-c",
        f"{CNS} account create {where} && exec {CNS} up {options} --api {apis} --port {{port}} {where}",
    ]


FLOOR, SERVICE, PAIR = "floor", "service", "service, 2 processes"
SIDES = {FLOOR: python("lab.floor.rows"), SERVICE: _service(1), PAIR: _service(2)}
SERVICE_WITH_WORKER = _service(1, "")
LISTENERS = {FLOOR: 1, SERVICE: 1, PAIR: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of work; a set is one send, one receive and one delete."""

    warm_up: int
    sets: Mapping[int, int]  # by connections
    cycles: int
    paced_s: float


FULL = Size(warm_up=2_000, sets={1: 500, 16: 3_000, 64: 3_000}, cycles=2_000, paced_s=10.0)
QUICK = Size(warm_up=0, sets={16: 200}, cycles=60, paced_s=0.5)
STATEMENTS_MAX = 1.5
"""Limit of a quick run: one per operation, and the share of the engine's loops in a short run."""

Runs = dict[tuple[str, str, int], list[Costs]]
"""By (server, workload, connections); at half load, connections is `HALF`."""


@contextmanager
def backend_servers() -> Iterator[None]:
    """Run Cassandra and Redis; at the end stop those that were not running before."""
    ours = servers.names_to_start()
    before = servers.running(ours)
    try:
        yield
    finally:
        servers.stop(servers.running(ours) - before)


@contextmanager
def single_node() -> Iterator[CassandraAddress]:
    with backend_servers(), keyspace() as place:
        yield place


@contextmanager
def ring(nodes: int = COPIES) -> Iterator[CassandraAddress]:
    """Cassandra nodes on this machine, with three copies of each row."""
    with backend_servers(), servers.Ring(nodes) as started:
        place = CassandraAddress(
            hosts=tuple(host for host, _ in started.addresses), port=started.addresses[0][1], keyspace=KEYSPACE
        )
        aside(schema.apply(place, COPIES))
        yield place


def environment_of(place: CassandraAddress) -> dict[str, str]:
    """The settings of a service in this keyspace."""
    return {
        "CNS_STORE": "cassandra",
        "CNS_CASSANDRA": ",".join(f"{host}:{place.port}" for host in place.hosts),
        "CNS_CASSANDRA_KEYSPACE": place.keyspace,
        "CNS_REDIS": servers.redis_url(),
        "CNS_MASTER_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    }


def measure(place: CassandraAddress, scratch: Path, names: list[str], n: int, size: Size, seed: int) -> Runs:
    """Measure each of the servers `n` times, alternating."""
    environment = environment_of(place)
    runs: Runs = defaultdict(list)
    with Backends(place, environment["CNS_REDIS"]) as backends:
        for number in range(n):
            for name in names:
                with running(
                    name, SIDES[name], scratch / f"{names.index(name)}-{number}", environment, listeners=LISTENERS[name]
                ) as server:
                    await_quiet(QUIET_S_MAX if size.warm_up else 0)
                    for connections, costs in uvloop.run(_workloads(server, backends, size, seed + number)):
                        print(connections or "half load", costs, flush=True)
                        runs[(name, costs.workload, connections)].append(costs)
    return runs


async def _workloads(server: Server, backends: Backends, size: Size, seed: int) -> list[tuple[int, Costs]]:
    """Costs with the number of connections, `HALF` at half load. Every client has its own queue."""
    done: list[tuple[int, Costs]] = []

    async def note(connections: int, *figures: Figures) -> None:
        done.extend([(connections, costs) for costs in await backends.costs(server, *figures)])

    client = await queues.open_client(server, max(size.sets), seed, f"warm-{server.pid}")
    await single_calls.cycles(client, size.warm_up)
    client.close()
    for connections, sets in size.sets.items():
        client = await queues.open_client(server, connections, seed, f"singles-{connections}-{server.pid}")
        await single_calls.cycles(client, 2 * connections)  # opens the queue's first bucket
        await backends.begin()
        await note(connections, await queues.send(client, sets))
        received, handles = await single_calls.receive(client, sets)
        await note(connections, received)
        await note(connections, await single_calls.delete(client, handles))
        client.close()
    client = await queues.open_client(server, max(size.sets), seed, f"mixed-{server.pid}")
    handles = await single_calls.fill_stock(client)
    await backends.begin()
    cycled = await single_calls.cycles(client, size.cycles)
    await note(len(client.lanes), cycled)
    await note(HALF, *await single_calls.paced(client, handles, cycled.per_s / 2, size.paced_s))
    client.close()
    return done


# -- tables -----------------------------------------------------------------------------------------------------------


def closed_loop(runs: Runs, names: list[str]) -> list[str]:
    """The table of rates and times with one call in flight per connection."""
    services = [name for name in names if name != FLOOR]
    lines = [
        f"| operation | connections | {' | '.join(f'{name}/s' for name in names)} | service : floor |"
        f" {' | '.join(f'{name}: p50, p95, p99 ms' for name in names)} | others' CPU |",
        "|---" * (2 * len(names) + 4) + "|",
    ]
    for _, operation, connections in [key for key in runs if key[0] == services[0] and key[2] != HALF]:
        same = [median_run(runs[(name, operation, connections)]) for name in names]
        rates = " | ".join(f"{costs.per_s:,.0f}" for costs in same)
        times = " | ".join(_times(costs) for costs in same)
        others = max(costs.others_share for costs in same)
        ratio = same[names.index(services[0])].per_s / same[names.index(FLOOR)].per_s
        lines.append(f"| {operation} | {connections} | {rates} | {ratio:.2f} | {times} | {others:.0%} |")
    return lines


def half_load(runs: Runs, names: list[str]) -> list[str]:
    """The table of times at half the rate that the same run reached."""
    lines = [
        "| at half load | operations/s | operation | p50, p95, p99 ms | bar: p50, p95 | |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        for operation in single_calls.OPERATIONS:
            costs = median_run(runs[(name, operation, HALF)])
            verdict = "met" if costs.p50_ms <= P50_MS and costs.p95_ms <= P95_MS else "**missed**"
            bar = f"≤ {P50_MS:.0f}, ≤ {P95_MS:.0f} | {verdict}" if name != FLOOR else "|"
            lines.append(f"| {name} | {costs.per_s:,.0f} | {operation} | {_times(costs)} | {bar} |")
    return lines


def cost(runs: Runs) -> list[str]:
    """The table of statements, Redis calls and CPU per operation."""
    lines = [
        f"| at {COSTS_AT} connections | statements | Redis: calls, commands in them | CPU µs: floor, service | ratio |"
        " CPU µs of Cassandra: under the floor, the service | CPU µs of Redis | CPU µs of the generator |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for operation in single_calls.OPERATIONS:
        floor, service = (median_run(runs[(name, operation, COSTS_AT)]) for name in (FLOOR, SERVICE))
        lines.append(
            f"| {operation} | {service.statements:.2f} | {service.redis_calls:.2f}, {service.redis_commands:.1f} |"
            f" {floor.server_us:.0f}, {service.server_us:.0f} | {service.server_us / floor.server_us:.2f} |"
            f" {floor.cassandra_us:.0f}, {service.cassandra_us:.0f} | {service.redis_us:.0f} |"
            f" {service.generator_us:.0f} |"
        )
    return lines


def _times(costs: Costs) -> str:
    return f"{costs.p50_ms:.1f}, {costs.p95_ms:.1f}, {costs.p99_ms:.1f}"


# -- sections ---------------------------------------------------------------------------------------------------------


def cluster_table(scratch: Path, n: int, seed: int) -> list[str]:
    names = list(SIDES)
    with single_node() as place:
        return table(measure(place, scratch, names, n, FULL, seed), names)


def ring_table(scratch: Path, n: int, seed: int) -> list[str]:
    names = [FLOOR, SERVICE]
    with ring() as place:
        return table(measure(place, scratch, names, n, FULL, seed), names)


def quick(scratch: Path, seed: int) -> list[str]:
    """One small run. Returns the operations with more statements than `STATEMENTS_MAX`."""
    names = [FLOOR, SERVICE]
    with single_node() as place:
        runs = measure(place, scratch, names, 1, QUICK, seed)
    print("\n".join([*closed_loop(runs, names), "", *cost(runs)]))
    return [
        operation
        for operation in single_calls.OPERATIONS
        if median_run(runs[(SERVICE, operation, COSTS_AT)]).statements > STATEMENTS_MAX
    ]


def table(runs: Runs, names: list[str]) -> list[str]:
    return [*closed_loop(runs, names), "", *half_load(runs, names), "", *cost(runs)]
