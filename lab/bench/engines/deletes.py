"""Measures the time and the tombstones of a receive after many deletes (rows P9 and P11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cassandra.cluster import Cluster

from cns_common.cassandra.connection import PROTOCOL_VERSION
from lab.bench.engines.depth import fill
from lab.bench.engines.sides import Side
from lab.load import single_calls
from lab.load.queues import BATCH, Client, delete_batch_request, handles_in, receive_requests, turns
from lab.load.wire import Budget, Script, run

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
    filled = await fill(client, stops[-1] + SPARE, fill_s)
    times: dict[int, float] = {}
    deleted = 0
    for stop in [stop for stop in stops if stop + SAMPLES <= filled]:
        deleted += await _drain(client, stop - deleted)
        if deleted < stop:
            break
        times[stop] = await _receive_ms(client)
        deleted += SAMPLES
    client.close()
    return times


async def _drain(client: Client, messages: int) -> int:
    """Receive and delete in batches over all connections."""
    budget = Budget(messages, DRAIN_S)
    receives = receive_requests(client, BATCH)

    def script(lane: int) -> Script:
        requests = turns(receives, lane)
        while budget.left > 0 and budget.take(0):
            handles = handles_in((yield [], next(requests)))
            budget.left -= len(handles)
            if handles:
                yield [], delete_batch_request(client, handles)

    await run(client.lanes, [script(lane) for lane in range(len(client.lanes))])
    return messages - budget.left


async def _receive_ms(client: Client) -> float:
    lanes, client.lanes = client.lanes, client.lanes[:1]
    figures, handles = await single_calls.receive(client, SAMPLES)
    await single_calls.delete(client, handles)
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


def table(
    found: Mapping[str, Mapping[int, float]], stops: Sequence[int], met: Mapping[str, tuple[float, float]]
) -> list[str]:
    lines = [
        f"| engine | receive, mean ms after {' | '.join(f'{stop:,} deletes' for stop in stops)} | last : first |"
        " tombstones of a read: p99, most |",
        "|---" * (len(stops) + 3) + "|",
    ]
    for engine, times in found.items():
        cells = " | ".join(f"{times[stop]:.1f}" if stop in times else "–" for stop in stops)
        ratio = list(times.values())[-1] / next(iter(times.values())) if times else 0.0
        read = f"{met[engine][0]:,.0f}, {met[engine][1]:,.0f}" if any(met[engine]) else "–"
        lines.append(f"| `{engine}` | {cells} | **{ratio:.2f}** | {read} |")
    return lines
