"""The section `seed000`: the workload and the columns of the performance table of CQS's first design (seed 000).

Two API processes behind a balancer, ten queues, two senders and two receivers for each; a burst of sends, and receivers
that work for 45 ms on each message until all are deleted. The seed ran on virtual machines with a ring of eight nodes;
here all runs on one machine, with one node, or with a ring of eight in the section `seed000-ring`.
"""

from __future__ import annotations

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


class Column(NamedTuple):
    """A column of the seed's table. Rates are those of all queues together, times those of all calls."""

    head: str
    digits: int = 0  # of our figures; the seed's have none
    unit: str = ""


COLUMNS = (
    *(Column("sent/s"), Column("empty receives", unit=" %"), Column("calls per API process/s")),
    *(Column("mean ms", 1), Column("median", 1), Column("P95", 1), Column("P90", 1), Column("max")),
)
SEED = {
    10: (97, 95, 1156, 3, 2, 8, 4, 5252),
    50: (420, 77, 1324, 10, 2, 22, 14, 5379),
    75: (528, 65, 1299, 18, 3, 35, 19, 5406),
    100: (559, 55, 1170, 26, 4, 50, 25, 5163),
    250: (706, 29, 1195, 38, 12, 160, 67, 5060),
    500: (775, 16, 1233, 40, 13, 150, 71, 5020),
    1000: (718, 11, 1127, 47, 14, 150, 81, 5458),
}
"""The seed's figures, by the goal: messages per queue and second."""


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    return _section(scratch / "seed000", seed, nodes=1)


def ring_section(scratch: Path, _n: int, seed: int) -> list[str]:
    return _section(scratch / "seed000-ring", seed, nodes=RING_NODES)


def _section(directory: Path, seed: int, *, nodes: int) -> list[str]:
    with store(nodes) as place, api_processes(place, API_PROCESSES, directory) as site:
        rows = uvloop.run(_measure(site, seed))
    header = ("goal: messages/queue/s", *[column.head for column in COLUMNS], "lost", "repeated")
    return [*table(header, rows), "", "In parentheses: the seed's figure."]


async def _measure(site: Site, seed: int) -> list[tuple[object, ...]]:
    rows = []
    for goal in SEED:
        async with site.clients(f"seed-{goal}", QUEUES, SENDERS + RECEIVERS, seed) as clients:
            await_quiet(QUIET_S_MAX)
            rows.append(await _row(clients, goal))
            print(rows[-1], flush=True)
    return rows


async def _row(clients: list[Client], goal: int) -> tuple[object, ...]:
    traffic, began_s = Traffic(), perf_counter()
    sending = [(client, lane) for client in clients for lane in client.lanes[:SENDERS]]
    receiving = [(client, lane) for client in clients for lane in client.lanes[SENDERS:]]
    await traffic.run(
        [traffic.send_at_rate(client, lane, goal / SENDERS, BURST_S) for client, lane in sending],
        [traffic.receive_single(client, lane, WORK_S) for client, lane in receiving],
    )
    took_s = perf_counter() - began_s
    times_ms = sorted(ns / NS_PER_MS for ns in traffic.took_ns)
    check, empty = traffic.check, 100 * traffic.empty / traffic.receives
    rates = (check.sent / BURST_S, empty, len(times_ms) / took_s / API_PROCESSES)
    figures = (*rates, fmean(times_ms), *[percentile(times_ms, percent) for percent in (50, 95, 90, 100)])
    *cells, slowest = [
        f"{ours:,.{column.digits}f}{column.unit} ({theirs:,}{column.unit})"
        for column, ours, theirs in zip(COLUMNS, figures, SEED[goal], strict=True)
    ]
    bar = bar_cell(slowest, met=times_ms[-1] < MAX_MS)
    return goal, *cells, bar, f"{check.missing} of {check.sent:,}", check.repeated
