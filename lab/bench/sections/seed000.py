"""The section `seed000`: the workload and the columns of the performance table of CQS's first design (seed 000).

Two API processes behind a balancer, ten queues, two senders and two receivers for each; a burst of sends, and receivers
that work for 45 ms on each message until all are deleted. The seed ran on virtual machines with a ring of eight nodes;
here all runs on one machine, with one node, or with a ring of eight in the section `seed000-ring`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import NamedTuple

import uvloop

from lab.bench.servers import QUIET_S_MAX
from lab.bench.site import Site, api_processes, store
from lab.bench.tables import bar_cell, table
from lab.harness.usage import await_quiet
from lab.load.checked_traffic import Traffic
from lab.load.queues import Client
from lab.measure.figures import NS_PER_MS, percentile

QUEUES = 10
SENDERS = RECEIVERS = 2
WORK_S = 0.045
BURST_S = 10.0
RING_NODES = 8
API_PROCESSES = 2
MAX_MS = 1_000.0
"""Bar of the slowest call; the seed's are above five seconds."""


class Row(NamedTuple):
    """The columns of the seed's table. Rates are those of all queues together, times those of all calls."""

    goal: int  # messages per queue and second
    sent_per_s: float
    empty_percent: float
    operations_per_node_s: float
    mean_ms: float
    median_ms: float
    p95_ms: float
    p90_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    columns: Row
    sent: int
    lost: int
    repeated: int


SEED = (
    Row(10, 97, 95, 1156, 3, 2, 8, 4, 5252),
    Row(50, 420, 77, 1324, 10, 2, 22, 14, 5379),
    Row(75, 528, 65, 1299, 18, 3, 35, 19, 5406),
    Row(100, 559, 55, 1170, 26, 4, 50, 25, 5163),
    Row(250, 706, 29, 1195, 38, 12, 160, 67, 5060),
    Row(500, 775, 16, 1233, 40, 13, 150, 71, 5020),
    Row(1000, 718, 11, 1127, 47, 14, 150, 81, 5458),
)


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    return _section(scratch / "seed000", seed, nodes=1)


def ring_section(scratch: Path, _n: int, seed: int) -> list[str]:
    return _section(scratch / "seed000-ring", seed, nodes=RING_NODES)


def _section(directory: Path, seed: int, *, nodes: int) -> list[str]:
    with store(nodes) as place, api_processes(place, API_PROCESSES, directory) as site:
        found = uvloop.run(_measure(site, seed))
    header = (
        *("goal: messages/queue/s", "sent/s", "empty receives", "calls per API process/s", "mean ms", "median", "P95"),
        *("P90", "max", "lost", "repeated"),
    )
    rows = [_cells(one, theirs) for one, theirs in zip(found, SEED, strict=True)]
    return [*table(header, rows), "", "In parentheses: the seed's figure."]


def _cells(one: MeasuredRow, theirs: Row) -> tuple[object, ...]:
    ours = one.columns
    return (
        ours.goal,
        f"{ours.sent_per_s:,.0f} ({theirs.sent_per_s:.0f})",
        f"{ours.empty_percent:.0f} % ({theirs.empty_percent:.0f} %)",
        f"{ours.operations_per_node_s:,.0f} ({theirs.operations_per_node_s:,.0f})",
        f"{ours.mean_ms:.1f} ({theirs.mean_ms:.0f})",
        f"{ours.median_ms:.1f} ({theirs.median_ms:.0f})",
        f"{ours.p95_ms:.1f} ({theirs.p95_ms:.0f})",
        f"{ours.p90_ms:.1f} ({theirs.p90_ms:.0f})",
        bar_cell(f"{ours.max_ms:,.0f} ({theirs.max_ms:,.0f})", met=ours.max_ms < MAX_MS),
        f"{one.lost} of {one.sent:,}",
        one.repeated,
    )


async def _measure(site: Site, seed: int) -> list[MeasuredRow]:
    rows = []
    for goal in [row.goal for row in SEED]:
        async with site.clients(f"seed-{goal}", QUEUES, SENDERS + RECEIVERS, seed) as clients:
            await_quiet(QUIET_S_MAX)
            rows.append(await _row(clients, goal))
            print(rows[-1], flush=True)
    return rows


async def _row(clients: list[Client], goal: int) -> MeasuredRow:
    traffic, began_s = Traffic(), perf_counter()
    sending = [(client, lane) for client in clients for lane in client.lanes[:SENDERS]]
    receiving = [(client, lane) for client in clients for lane in client.lanes[SENDERS:]]
    await traffic.run(
        [traffic.send_at_rate(client, lane, goal / SENDERS, BURST_S) for client, lane in sending],
        [traffic.receive_single(client, lane, WORK_S) for client, lane in receiving],
    )
    took_s = perf_counter() - began_s
    times_ms = sorted(ns / NS_PER_MS for ns in traffic.times.took_ns)
    check = traffic.check
    columns = Row(
        goal=goal,
        sent_per_s=check.sent / BURST_S,
        empty_percent=100 * traffic.times.empty / traffic.times.receives,
        operations_per_node_s=len(times_ms) / took_s / API_PROCESSES,
        mean_ms=fmean(times_ms),
        median_ms=percentile(times_ms, 50),
        p95_ms=percentile(times_ms, 95),
        p90_ms=percentile(times_ms, 90),
        max_ms=times_ms[-1],
    )
    return MeasuredRow(columns, check.sent, check.missing, check.repeated)
