"""The sections `cluster` and `ring`: times and costs of sends, receives and deletes on Cassandra and Redis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import uvloop

from cns_common.cassandra.connection import CassandraAddress
from lab.bench.servers import NO_WORKER, QUIET_S_MAX, service
from lab.bench.site import store
from lab.bench.tables import MISSED, joined, table
from lab.harness.cluster import settings_in
from lab.harness.keyspace import COPIES
from lab.harness.server import Server, python, running
from lab.harness.usage import await_quiet
from lab.load import workloads
from lab.load.queues import open_client
from lab.measure import statement_count
from lab.measure.backends import Backends, Costs
from lab.measure.figures import Figures, median_run

CONNECTIONS = (1, 16, 64)
COSTS_AT = 16
"""The number of connections at which costs are shown."""
HALF = 0
P50_MS, P95_MS = 10.0, 25.0
"""Limits at half load."""

FLOOR, SERVICE, PAIR = "floor", "service", "service, 2 processes"
SIDES = {FLOOR: python("lab.floor.rows"), SERVICE: NO_WORKER, PAIR: [*NO_WORKER, "--api", "2"]}


class Size(NamedTuple):
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


def measure(place: CassandraAddress, scratch: Path, names: list[str], n: int, size: Size, seed: int) -> Runs:
    """Measure each of the servers `n` times, alternating."""
    out = scratch / "statements"
    environment = {**settings_in(place), **statement_count.environment(out)}
    runs: Runs = defaultdict(list)
    with Backends(place, environment["CNS_REDIS"], out) as backends:
        for number in range(n):
            for at, name in enumerate(names):
                data, floor = scratch / f"{at}-{number}", SIDES[name] if name == FLOOR else None
                with (
                    running(name, floor, data, environment)
                    if floor
                    else service(data, environment, SIDES[name], name=name)
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
        done.extend([(connections, costs) for costs in await backends.costs(*figures)])

    client = await open_client(server, max(size.sets), seed, f"warm-{server.pid}")
    await workloads.cycles(client, size.warm_up)
    client.close()
    for connections, sets in size.sets.items():
        client = await open_client(server, connections, seed, f"singles-{connections}-{server.pid}")
        await workloads.cycles(client, 2 * connections)  # opens the queue's first bucket
        await backends.begin()
        await note(connections, await workloads.send(client, sets))
        received, handles = await workloads.receive(client, sets)
        await note(connections, received)
        await note(connections, await workloads.delete(client, handles))
        client.close()
    client = await open_client(server, max(size.sets), seed, f"mixed-{server.pid}")
    handles = await workloads.fill_stock(client)
    await backends.begin()
    cycled = await workloads.cycles(client, size.cycles)
    await note(len(client.lanes), cycled)
    await note(HALF, *await workloads.paced(client, handles, cycled.per_s / 2, size.paced_s))
    client.close()
    return done


# -- tables -----------------------------------------------------------------------------------------------------------


def closed_loop(runs: Runs, names: Sequence[str]) -> list[str]:
    """The table of rates and times with one call in flight per connection."""
    services = [name for name in names if name != FLOOR]
    rows = []
    for _, operation, connections in [key for key in runs if key[0] == services[0] and key[2] != HALF]:
        same = [median_run(runs[(name, operation, connections)]) for name in names]
        ratio = same[names.index(services[0])].per_s / same[names.index(FLOOR)].per_s
        rates, times = [f"{costs.per_s:,.0f}" for costs in same], map(_times, same)
        others = max(costs.others_share for costs in same)
        rows.append((operation, connections, *rates, f"{ratio:.2f}", *times, f"{others:.0%}"))
    per_s, of_calls = [f"{name}/s" for name in names], [f"{name}: p50, p95, p99 ms" for name in names]
    return table(("operation", "connections", *per_s, "service : floor", *of_calls, "others' CPU"), rows)


def half_load(runs: Runs, names: Sequence[str]) -> list[str]:
    """The table of times at half the rate that the same run reached."""
    rows = []
    for name in names:
        for operation in workloads.OPERATIONS:
            costs = median_run(runs[(name, operation, HALF)])
            verdict = "met" if costs.p50_ms <= P50_MS and costs.p95_ms <= P95_MS else f"**{MISSED}**"
            bar = ("", "") if name == FLOOR else (f"≤ {P50_MS:.0f}, ≤ {P95_MS:.0f}", verdict)
            rows.append((name, f"{costs.per_s:,.0f}", operation, _times(costs), *bar))
    return table(("at half load", "operations/s", "operation", "p50, p95, p99 ms", "bar: p50, p95", ""), rows)


def cost(runs: Runs) -> list[str]:
    """The table of statements, Redis calls and CPU per operation."""
    rows = []
    for operation in workloads.OPERATIONS:
        floor, ours = (median_run(runs[(name, operation, COSTS_AT)]) for name in (FLOOR, SERVICE))
        row = (
            operation,
            f"{ours.statements:.2f}",
            f"{ours.redis_calls:.2f}, {ours.redis_commands:.1f}",
            joined((floor.server_us, ours.server_us), 0),
            f"{ours.server_us / floor.server_us:.2f}",
            joined((floor.cassandra_us, ours.cassandra_us), 0),
            f"{ours.redis_us:.0f}",
            f"{ours.generator_us:.0f}",
        )
        rows.append(row)
    header = (
        *(f"at {COSTS_AT} connections", "statements", "Redis: calls, commands in them", "CPU µs: floor, service"),
        *("ratio", "CPU µs of Cassandra: under the floor, the service", "CPU µs of Redis", "CPU µs of the generator"),
    )
    return table(header, rows)


def _times(costs: Costs) -> str:
    return joined((costs.p50_ms, costs.p95_ms, costs.p99_ms))


# -- sections ---------------------------------------------------------------------------------------------------------


def section(scratch: Path, n: int, seed: int) -> list[str]:
    return _section(scratch, n, seed, list(SIDES), nodes=1)


def ring_section(scratch: Path, n: int, seed: int) -> list[str]:
    return _section(scratch, n, seed, [FLOOR, SERVICE], nodes=COPIES)


def _section(scratch: Path, n: int, seed: int, names: list[str], *, nodes: int) -> list[str]:
    with store(nodes) as place:
        runs = measure(place, scratch, names, n, FULL, seed)
    return [*closed_loop(runs, names), "", *half_load(runs, names), "", *cost(runs)]


def quick(scratch: Path, seed: int) -> dict[str, str]:
    """One small run, by operation; wrong is what has more statements than `STATEMENTS_MAX`."""
    names = [FLOOR, SERVICE]
    with store() as place:
        runs = measure(place, scratch / "cluster", names, 1, QUICK, seed)
    print("\n".join([*closed_loop(runs, names), "", *cost(runs)]))
    costs = {operation: median_run(runs[(SERVICE, operation, COSTS_AT)]) for operation in workloads.OPERATIONS}
    return {
        f"cluster: {operation}": f"{each.statements} statements" if each.statements > STATEMENTS_MAX else ""
        for operation, each in costs.items()
    }
