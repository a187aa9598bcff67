"""Rates, times and costs of single sends, receives and deletes at 1 and at many connections."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

import msgspec

from lab.bench.engines.sides import Side
from lab.bench.tables import joined, table
from lab.load import workloads
from lab.load.queues import Client
from lab.measure.figures import Figures

CONNECTIONS = (1, 64)


class Rates(Figures, frozen=True, kw_only=True):
    """Figures with statements, all and conditional, and Cassandra's CPU per operation."""

    statements: float
    conditional: float
    cassandra_us: float


Found = dict[tuple[int, str], Rates]
"""By connections and operation."""


async def rates(side: Side, messages: Mapping[int, int], seed: int) -> Found:
    """`messages` are those of each number of connections."""
    found: Found = {}
    for connections, n in messages.items():
        client = await side.client(connections, seed, f"rates-{connections}")
        await workloads.cycles(client, 2 * connections)  # opens the queue's first partition
        handles: list[bytes] = []
        found[connections, "send"] = await _counted(side, workloads.send(client, n))
        found[connections, "receive"] = await _counted(side, _receive(client, n, handles))
        found[connections, "delete"] = await _counted(side, workloads.delete(client, handles))
        client.close()
    return found


async def _receive(client: Client, n: int, handles: list[bytes]) -> Figures:
    figures, got = await workloads.receive(client, n)
    handles += got
    return figures


async def _counted(side: Side, work: Awaitable[Figures]) -> Rates:
    before, used_us = side.site.statements(), side.cassandra_us()
    figures = await work
    statements, n = side.site.statements().since(before), max(figures.units, 1)
    return Rates(
        **msgspec.structs.asdict(figures),
        statements=statements.total / n,
        conditional=statements.conditional / n,
        cassandra_us=(side.cassandra_us() - used_us) / n,
    )


def lines(found: Mapping[str, Found]) -> list[str]:
    few, many = CONNECTIONS
    rows = []
    for operation in workloads.OPERATIONS:
        for engine, by in found.items():
            one, all_ = by[few, operation], by[many, operation]
            statements = ", ".join(f"{row.statements:.2f} ({row.conditional:.2f})" for row in (one, all_))
            cassandra = f"{all_.cassandra_us:.0f}" if all_.cassandra_us else "–"
            row = (
                operation,
                f"`{engine}`",
                f"{one.per_s:,.0f}",
                joined((one.p50_ms, one.p99_ms)),
                f"{all_.per_s:,.0f}",
                joined((all_.p50_ms, all_.p99_ms)),
                statements if one.statements else "–",
                f"{all_.server_us:.0f}, {cassandra}",
            )
            rows.append(row)
    header = (
        *("operation", "engine", f"{few} connection: 1/s", "p50, p99 ms", f"{many} connections: 1/s", "p50, p99 ms"),
        *("statements, conditional: at 1, at 64", "CPU µs: service, Cassandra"),
    )
    return table(header, rows)
