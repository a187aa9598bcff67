"""Producers and consumers of one queue at once, from one of each to many, for a fixed time (rows B83 and P12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from lab.bench.engines.sides import Side
from lab.bench.order.figures import duplicates
from lab.bench.order.workload import Experiment, Load
from lab.bench.tables import joined, table
from lab.load.queues import BODY_BYTES, HIDE_S


class Contention(NamedTuple):
    sent_per_s: float
    taken_per_s: float  # received and deleted
    empty: float  # receives without a message, as a share of all
    duplicates: float  # deliveries beyond a message's first, as a share of the messages
    statements: float  # for each message that was taken
    conditional: float
    cpu_us: float  # of the service and Cassandra, for each message that was taken


async def contention(side: Side, parallel: int, seconds: float, seed: int) -> Contention:
    """`parallel` producers and as many consumers, each with a connection of its own, over all API processes."""
    load = Load(
        name=f"{side.engine}-contention-{parallel}",
        queues=1,
        senders=parallel,
        receivers=parallel,
        body_bytes=BODY_BYTES,
        visibility_s=HIDE_S,
        poll_s=0,
        seconds=seconds,
        attributes=side.attributes,
    )
    experiment = Experiment(load, (side.site.caller(),) * 2, Random(seed))
    await experiment.create_queues()
    before, used_us = side.site.statements(), side.cpu_us()
    await experiment.run_together()
    used, used_us = side.site.statements().since(before), side.cpu_us() - used_us
    experiment.close()
    record, (queue,) = experiment.record, experiment.record.queues
    taken = max(len(queue.deleted), 1)
    return Contention(
        sent_per_s=len(queue.acknowledged) / seconds,
        taken_per_s=len(queue.deleted) / seconds,
        empty=record.empty / max(record.polls, 1),
        duplicates=duplicates(queue) / max(len(queue.ids), 1),
        statements=used.total / taken,
        conditional=used.conditional / taken,
        cpu_us=used_us / taken,
    )


def lines(found: Mapping[str, Mapping[int, Contention]], parallels: Sequence[int]) -> list[str]:
    first, last = parallels[0], parallels[-1]
    rows = []
    for engine, by in found.items():
        ends = (by[first], by[last])
        statements = ", ".join(f"{one.statements:.1f} ({one.conditional:.2f})" for one in ends)
        row = (
            f"`{engine}`",
            *[joined((by[n].sent_per_s, by[n].taken_per_s), 0) for n in parallels],
            f"{by[last].empty:.0%}",
            f"{max(one.duplicates for one in by.values()):.2%}",
            joined([by[n].cpu_us for n in parallels], 0),
            statements if by[first].statements else "–",
        )
        rows.append(row)
    pairs = [f"{n} × {n}" for n in parallels]
    header = (
        *("engine", *[f"{pair}: sent/s, taken/s" for pair in pairs], f"at {last}: empty receives"),
        *("duplicates, worst", f"CPU µs a message: {', '.join(pairs)}"),
        f"statements a message, conditional: at {first}, at {last}",
    )
    return table(header, rows)
