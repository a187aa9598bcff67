"""The sections `long` and `receivers`: messages lost and repeated in the cluster form, without a fault."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import uvloop

from lab.bench.site import Site, api_processes, store
from lab.bench.tables import bar_cell, table
from lab.load.checked_traffic import Traffic

MESSAGES = 2_000_000
QUEUES = 4
SENDERS, RECEIVERS = 2, 3
"""The number of senders and of receivers for each queue."""
API_PROCESSES = 2
REPEATED_PER_MILLION = 1
RECEIVER_COUNTS = (2, 4, 8, 16, 32, 64)
CONTENDED = 10_000


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    """Loss and repeats of `MESSAGES` messages; the seed states 1 in 2,000,000 and 1 in 1,000,000."""
    with store() as place, api_processes(place, API_PROCESSES, scratch / "long") as site:
        traffic, seconds = uvloop.run(_long(site, seed))
        check = traffic.check
        per_million = check.repeated * 1_000_000 / check.sent
        row = (
            f"{check.sent:,}",
            f"{QUEUES}, {QUEUES * SENDERS}, {QUEUES * RECEIVERS}",
            f"{check.sent / seconds:,.0f}",
            check.missing,
            bar_cell("0", met=check.missing == 0),
            f"{per_million:.2f}",
            bar_cell(f"≤ {REPEATED_PER_MILLION}", met=per_million <= REPEATED_PER_MILLION),
        )
        print(row, flush=True)  # half an hour of work: it is not lost if the processes stop badly
    header = (
        *("messages", "queues, senders, receivers", "messages/s, sent and deleted", "lost", "bar"),
        *("repeated per million", "bar"),
    )
    return table(header, [row])


def receivers_section(scratch: Path, _n: int, seed: int) -> list[str]:
    """Repeats when 2 to 64 receivers ask for single messages of one queue at the same time."""
    rows = []
    with store() as place, api_processes(place, API_PROCESSES, scratch / "receivers") as site:
        for count in RECEIVER_COUNTS:
            traffic, seconds = uvloop.run(_contend(site, count, seed))
            check = traffic.check
            empty, per_s = f"{traffic.empty / traffic.receives:.1%}", f"{check.distinct / seconds:,.0f}"
            rows.append((count, f"{check.sent:,}", check.missing, check.repeated, empty, per_s))
            print(rows[-1], flush=True)
    header = ("receivers of one queue", "messages", "lost", "repeated", "empty receives", "messages/s")
    return table(header, rows)


async def _long(site: Site, seed: int) -> tuple[Traffic, float]:
    traffic = Traffic()
    share = MESSAGES // QUEUES // SENDERS
    async with site.clients("long", QUEUES, SENDERS + RECEIVERS, seed) as clients:
        began_s = perf_counter()
        await traffic.run(
            [traffic.send_batches(client, lane, share) for client in clients for lane in client.lanes[:SENDERS]],
            [traffic.receive_batches(client, lane) for client in clients for lane in client.lanes[SENDERS:]],
        )
        return traffic, perf_counter() - began_s


async def _contend(site: Site, receivers: int, seed: int) -> tuple[Traffic, float]:
    traffic = Traffic()
    async with site.clients(f"contended-{receivers}", 1, receivers, seed) as (client,):
        await traffic.send_batches(client, client.lanes[0], CONTENDED)
        began_s = perf_counter()
        await traffic.run([], [traffic.receive_single(client, lane, 0.0) for lane in client.lanes])
        return traffic, perf_counter() - began_s
