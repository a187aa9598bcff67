"""Measures the time and the tombstones of a receive after many deletes (rows P9 and P11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cassandra.cluster import Cluster

from cns_common.cassandra.connection import PROTOCOL_VERSION
from lab.bench.engines.sides import Side
from lab.bench.tables import joined, table
from lab.load import workloads
from lab.load.queues import Client

LANES = 16
SAMPLES = 20
SPARE = 500
"""Messages that are left at the last stop."""
DRAIN_S = 15.0
TABLES = {"cqs": ("cqs_messages", "cqs_buckets")}
"""Tables whose names do not begin with their engine's name, or begin with that of another."""
READS = "SELECT table_name, count, p99th, max FROM system_views.tombstones_per_read"


async def receive_times(side: Side, stops: Sequence[int], fill_s: float, seed: int) -> dict[int, float]:
    """Mean ms of single receives after about `stops` deletes. Stops that take too long are left out."""
    client = await side.client(LANES, seed, "deletes")
    filled = (await workloads.send_batches(client, stops[-1] + SPARE, fill_s)).units
    times: dict[int, float] = {}
    deleted = 0
    for stop in [stop for stop in stops if stop + SAMPLES <= filled]:
        deleted += (await workloads.drain(client, stop - deleted, DRAIN_S, patient=True)).units
        if deleted < stop:
            break
        times[stop] = await _receive_ms(client)
        deleted += SAMPLES
    client.close()
    return times


async def _receive_ms(client: Client) -> float:
    lanes, client.lanes = client.lanes, client.lanes[:1]
    figures, handles = await workloads.receive(client, SAMPLES)
    await workloads.delete(client, handles)
    client.lanes = lanes
    return figures.mean_ms


def tombstones(side: Side) -> tuple[float, float]:
    """Tombstones that a read of the engine's tables met: the 99th percentile of the worst table, and the most."""
    if side.place is None:
        return 0.0, 0.0
    with Cluster(side.place.hosts, side.place.port, protocol_version=PROTOCOL_VERSION) as cluster:
        rows = list(cluster.connect().execute(READS))
    named = TABLES.get(side.engine)
    ours = [row for row in rows if row.count and _is_of(row.table_name, side.engine, named)]
    return max([row.p99th for row in ours], default=0.0), max([row.max for row in ours], default=0.0)


def _is_of(table: str, engine: str, named: Sequence[str] | None) -> bool:
    return table in named if named else table.startswith(f"{engine}_")


def lines(
    found: Mapping[str, Mapping[int, float]], stops: Sequence[int], met: Mapping[str, tuple[float, float]]
) -> list[str]:
    rows = []
    for engine, times in found.items():
        cells = [f"{times[stop]:.1f}" if stop in times else "–" for stop in stops]
        ratio = list(times.values())[-1] / next(iter(times.values())) if times else 0.0
        rows.append((f"`{engine}`", *cells, f"**{ratio:.2f}**", joined(met[engine], 0) if any(met[engine]) else "–"))
    first, *others = [f"{stop:,} deletes" for stop in stops]
    ends = ("last : first", "tombstones of a read: p99, most")
    return table(("engine", f"receive, mean ms after {first}", *others, *ends), rows)
