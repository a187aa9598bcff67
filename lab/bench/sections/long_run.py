"""The sections `long` and `receivers`: messages lost and repeated in the cluster form, without a fault."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter

import uvloop

from lab.bench.sections.seed000 import ApiPair, api_pair
from lab.load.checked_traffic import Traffic
from lab.load.queues import Client
from lab.measure.figures import bar_cell

MESSAGES = 2_000_000
QUEUES = 4
SENDERS, RECEIVERS = 2, 3
"""The number of senders and of receivers for each queue."""
REPEATED_PER_MILLION = 1
RECEIVER_COUNTS = (2, 4, 8, 16, 32, 64)
CONTENDED = 10_000


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    """Loss and repeats of `MESSAGES` messages; the seed states 1 in 2,000,000 and 1 in 1,000,000."""
    with api_pair(scratch / "long") as pair:
        traffic, seconds = uvloop.run(_long(pair, seed))
        check = traffic.check
        per_million = check.repeated * 1_000_000 / check.sent
        repeated = bar_cell(f"≤ {REPEATED_PER_MILLION}", met=per_million <= REPEATED_PER_MILLION)
        row = (
            f"| {check.sent:,} | {QUEUES}, {QUEUES * SENDERS}, {QUEUES * RECEIVERS} | {check.sent / seconds:,.0f} |"
            f" {check.missing} | {bar_cell('0', met=check.missing == 0)} | {per_million:.2f} | {repeated} |"
        )
        print(row, flush=True)  # half an hour of work: it is not lost if the processes stop badly
    return [
        "| messages | queues, senders, receivers | messages/s, sent and deleted | lost | bar |"
        " repeated per million | bar |",
        "|---|---|---|---|---|---|---|",
        row,
    ]


def receivers_table(scratch: Path, _n: int, seed: int) -> list[str]:
    """Repeats when 2 to 64 receivers ask for single messages of one queue at the same time."""
    lines = [
        "| receivers of one queue | messages | lost | repeated | empty receives | messages/s |",
        "|---|---|---|---|---|---|",
    ]
    with api_pair(scratch / "receivers") as pair:
        for count in RECEIVER_COUNTS:
            traffic, seconds = uvloop.run(_contend(pair, count, seed))
            check, times = traffic.check, traffic.times
            lines.append(
                f"| {count} | {check.sent:,} | {check.missing} | {check.repeated} |"
                f" {times.empty / times.receives:.1%} | {check.distinct / seconds:,.0f} |"
            )
            print(lines[-1], flush=True)
    return lines


async def _long(pair: ApiPair, seed: int) -> tuple[Traffic, float]:
    traffic = Traffic()
    share = MESSAGES // QUEUES // SENDERS
    async with pair.clients("long", QUEUES, SENDERS + RECEIVERS, seed) as clients:
        began_s = perf_counter()
        senders = [
            asyncio.create_task(traffic.send_batches(client, lane, share))
            for client in clients
            for lane in client.lanes[:SENDERS]
        ]
        receivers = [
            asyncio.create_task(traffic.receive_batches(client, lane))
            for client in clients
            for lane in client.lanes[SENDERS:]
        ]
        await traffic.run(senders, receivers)
        return traffic, perf_counter() - began_s


async def _contend(pair: ApiPair, receivers: int, seed: int) -> tuple[Traffic, float]:
    traffic = Traffic()
    async with pair.clients(f"contended-{receivers}", 1, receivers, seed) as clients:
        client: Client = clients[0]
        await traffic.send_batches(client, client.lanes[0], CONTENDED)
        began_s = perf_counter()
        tasks = [asyncio.create_task(traffic.receive_single(client, lane, 0.0)) for lane in client.lanes]
        await traffic.run([], tasks)
        return traffic, perf_counter() - began_s
