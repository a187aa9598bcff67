"""Rates, times and costs of single sends, receives and deletes at 1 and at many connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from lab.bench.engines.sides import Side
from lab.load import queues, single_calls
from lab.measure.figures import Figures

CONNECTIONS = (1, 64)


class Rates(Figures, frozen=True, kw_only=True):
    """Figures with statements, all and conditional, and Cassandra's CPU per operation."""

    statements: float
    conditional: float
    cassandra_us: float


async def rates(side: Side, messages: dict[int, int], seed: int) -> dict[tuple[int, str], Rates]:
    """By connections and operation. `messages` are those of each number of connections."""
    found: dict[tuple[int, str], Rates] = {}
    for connections, n in messages.items():
        client = await side.client(connections, seed, f"rates-{connections}")
        await single_calls.cycles(client, 2 * connections)  # opens the queue's first partition
        handles: list[bytes] = []

        found[connections, "send"] = await _counted(side, partial(queues.send, client, n))
        found[connections, "receive"] = await _counted(side, partial(_receive, client, n, handles))
        found[connections, "delete"] = await _counted(side, partial(single_calls.delete, client, handles))
        client.close()
    return found


async def _receive(client: queues.Client, n: int, handles: list[bytes]) -> Figures:
    figures, got = await single_calls.receive(client, n)
    handles += got
    return figures


async def _counted(side: Side, work: Callable[[], Awaitable[Figures]]) -> Rates:
    before, used_us = side.statements(), side.cassandra_us()
    figures = await work()
    statements, n = side.statements().since(before), max(figures.units, 1)
    return Rates(
        **msgspec.structs.asdict(figures),
        statements=statements.total / n,
        conditional=statements.conditional / n,
        cassandra_us=(side.cassandra_us() - used_us) / n,
    )


def table(found: dict[str, dict[tuple[int, str], Rates]]) -> list[str]:
    few, many = CONNECTIONS
    lines = [
        f"| operation | engine | {few} connection: 1/s | p50, p99 ms | {many} connections: 1/s | p50, p99 ms |"
        " statements, conditional: at 1, at 64 | CPU µs: service, Cassandra |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for operation in single_calls.OPERATIONS:
        for engine, by in found.items():
            one, all_ = by[few, operation], by[many, operation]
            statements = ", ".join(f"{row.statements:.2f} ({row.conditional:.2f})" for row in (one, all_))
            lines.append(
                f"| {operation} | `{engine}` | {one.per_s:,.0f} | {one.p50_ms:.1f}, {one.p99_ms:.1f} |"
                f" {all_.per_s:,.0f} | {all_.p50_ms:.1f}, {all_.p99_ms:.1f} |"
                f" {statements if one.statements else '–'} |"
                f" {all_.server_us:.0f}, {f'{all_.cassandra_us:.0f}' if all_.cassandra_us else '–'} |"
            )
    return lines
