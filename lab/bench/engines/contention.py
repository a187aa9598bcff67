"""Producers and consumers of one queue at once, from one of each to many, for a fixed time (rows B83 and P12)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import NamedTuple

from lab.bench.engines.sides import Side
from lab.bench.order.caller import Caller
from lab.load.queues import HIDE_S

BODY = "x" * 1_000


class Contention(NamedTuple):
    sent_per_s: float
    taken_per_s: float  # received and deleted
    empty: float  # receives without a message, as a share of all
    duplicates: float  # deliveries beyond a message's first, as a share of the messages
    statements: float  # for each message that was taken
    conditional: float
    cpu_us: float  # of the service and Cassandra, for each message that was taken


@dataclass(slots=True)
class _Counts:
    until_s: float
    sent: int = 0
    deleted: int = 0
    receives: int = 0
    empty: int = 0
    deliveries: Counter[str] = field(default_factory=Counter)


async def contention(side: Side, parallel: int, seconds: float, seed: int) -> Contention:
    """`parallel` producers and as many consumers, each with a connection of its own, over all API processes."""
    queue, make = f"{side.engine}-contention-{parallel}", side.caller()
    made = await make.ask("CreateQueue", QueueName=queue, Attributes=side.attributes)
    make.account = made["QueueUrl"].split("/")[-2]
    counts, before, cpu_us = _Counts(perf_counter() + seconds), side.statements(), side.cpu_us()
    work = [(_produce, n) for n in range(parallel)] + [(_consume, n) for n in range(parallel)]
    began_s = perf_counter()
    await asyncio.gather(*[each(make.another(n, Random(seed + n)), queue, counts) for each, n in work])
    took_s, used = perf_counter() - began_s, side.statements().since(before)
    make.close()
    distinct, taken = len(counts.deliveries), max(counts.deleted, 1)
    return Contention(
        sent_per_s=counts.sent / took_s,
        taken_per_s=counts.deleted / took_s,
        empty=counts.empty / max(counts.receives, 1),
        duplicates=(counts.deliveries.total() - distinct) / max(distinct, 1),
        statements=used.total / taken,
        conditional=used.conditional / taken,
        cpu_us=(side.cpu_us() - cpu_us) / taken,
    )


async def _produce(caller: Caller, queue: str, counts: _Counts) -> None:
    while perf_counter() < counts.until_s:
        answer = await caller.call("SendMessage", queue, MessageBody=BODY)
        counts.sent += answer is not None
    caller.close()


async def _consume(caller: Caller, queue: str, counts: _Counts) -> None:
    while perf_counter() < counts.until_s:
        found = await caller.call("ReceiveMessage", queue, MaxNumberOfMessages=1, VisibilityTimeout=HIDE_S)
        messages = (found or {}).get("Messages", [])
        counts.receives += 1
        counts.empty += not messages
        for message in messages:
            counts.deliveries[message["MessageId"]] += 1
            deleted = await caller.call("DeleteMessage", queue, ReceiptHandle=message["ReceiptHandle"])
            counts.deleted += deleted is not None
    caller.close()


def table(found: Mapping[str, Mapping[int, Contention]], parallels: Sequence[int]) -> list[str]:
    lines = [
        f"| engine | {' | '.join(f'{n} × {n}: sent/s, taken/s' for n in parallels)} |"
        f" at {parallels[-1]}: empty receives | duplicates, worst |"
        f" CPU µs a message: {', '.join(f'{n} × {n}' for n in parallels)} |"
        f" statements a message, conditional: at {parallels[0]}, at {parallels[-1]} |",
        "|---" * (len(parallels) + 5) + "|",
    ]
    for engine, by in found.items():
        rates = " | ".join(f"{by[n].sent_per_s:,.0f}, {by[n].taken_per_s:,.0f}" for n in parallels)
        ends = [by[parallels[0]], by[parallels[-1]]]
        cpu = ", ".join(f"{by[n].cpu_us:,.0f}" for n in parallels)
        statements = ", ".join(f"{one.statements:.1f} ({one.conditional:.2f})" for one in ends)
        lines.append(
            f"| `{engine}` | {rates} | {ends[1].empty:.0%} | {max(one.duplicates for one in by.values()):.2%} |"
            f" {cpu} | {statements if ends[0].statements else '–'} |"
        )
    return lines
