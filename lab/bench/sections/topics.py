"""The section `topics`: publishes to queues of the same store, raw and signed, against sends in the same run.

CPU is compared with what the parts of a publish cost by themselves: one signature, and plain sends.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

import uvloop

from cns.delivery.signing import Signer, new_identity
from lab.bench.servers import service
from lab.bench.tables import bar_cell, joined, table
from lab.harness.server import Server
from lab.load import polls
from lab.load.queues import Client, open_client
from lab.load.topics import Topic, open_topic, saturate_queues
from lab.load.workloads import send
from lab.measure.figures import US_PER_S, Figures, median_run

CONNECTIONS = 64
FULL, QUICK = 8_000, 300
"""Sends, and publishes to one queue; a fifth of it to ten."""
WAKES = 200
SIGNATURES = 200
RATE_SHARE_MIN = 0.5
"""The share of the sends' rate that publishes to one queue, raw, reach."""
SENDS_MAX, SENDS_A_QUEUE_MAX = 3.0, 0.5
"""CPU of a publish to one queue beyond its signature, and of each further queue, in sends."""
WAKE_RATIO_MAX = 1.5


class Kind(NamedTuple):
    queues: int
    is_raw: bool

    def __str__(self) -> str:
        return f"topic → {self.queues} queue{'s' if self.queues > 1 else ''}, {'raw' if self.is_raw else 'signed'}"

    def limit_us(self, send_us: float, signature_us: float) -> float:
        sends = SENDS_MAX + SENDS_A_QUEUE_MAX * (self.queues - 1)
        return send_us * sends + (0 if self.is_raw else signature_us)


KINDS = (Kind(1, True), Kind(1, False), Kind(10, True), Kind(10, False))


class Round(NamedTuple):
    sends: Figures
    publishes: list[Figures]
    """In the order of `KINDS`; their units are messages in queues."""
    send_wake: Figures
    publish_wakes: list[Figures]
    """Raw and signed."""


def section(scratch: Path, n: int, seed: int) -> list[str]:
    return lines([_run(scratch / f"topics-{number}", FULL, seed + number) for number in range(n)], signature_us())


def quick(scratch: Path, seed: int) -> dict[str, str]:
    """One small run; a publish that does not arrive ends it."""
    print("\n".join(lines([_run(scratch / "topics", QUICK, seed)], signature_us())))
    return {}


def signature_us() -> float:
    """CPU of one signature by itself, in the median."""
    signer, times = Signer(new_identity(0)), []
    for number in range(SIGNATURES):
        began_s = process_time()
        signer.sign(b"%d" % number, "1")
        times.append(process_time() - began_s)
    return statistics.median(times) * US_PER_S


def _run(data: Path, publishes: int, seed: int) -> Round:
    with service(data) as server:
        return uvloop.run(measure(server, publishes, seed))


async def measure(server: Server, publishes: int, seed: int) -> Round:
    client = await open_client(server, CONNECTIONS, seed)
    await client.use_queue("plain")
    await send(client, publishes // 10)
    sends = await send(client, publishes)
    figures = []
    for kind in KINDS:
        topic, names = await _topic(server, kind, CONNECTIONS, seed)
        n = publishes if kind.queues == 1 else publishes // 5
        figures.append(await saturate_queues(topic, n, names))
        topic.client.close()
    client.close()
    idle = await open_client(server, 2, seed)
    await idle.use_queue("idle")
    send_wake = await polls.wake(idle, WAKES)
    wakes = [await _publish_wake(server, Kind(1, is_raw), seed) for is_raw in (True, False)]
    return Round(sends, figures, send_wake, wakes)


async def _topic(server: Server, kind: Kind, connections: int, seed: int) -> tuple[Topic, list[str]]:
    prefix = f"{kind.queues}-{'raw' if kind.is_raw else 'signed'}-{connections}"
    topic = await open_topic(server, connections, seed, prefix)
    names = [f"{prefix}-{number}" for number in range(kind.queues)]
    await topic.subscribe_queues(names, raw=kind.is_raw)
    return topic, names


async def _publish_wake(server: Server, kind: Kind, seed: int) -> Figures:
    topic, (name,) = await _topic(server, kind, 2, seed)
    client: Client = topic.client
    await client.use_queue(name)
    publish: Callable[[], bytes] = partial(topic.publish, client.body())
    return await polls.wake(client, WAKES, publish)


def lines(rounds: Sequence[Round], signature: float) -> list[str]:
    sends = median_run([each.sends for each in rounds])
    rows: list[tuple[object, ...]] = [
        ("send", f"{sends.per_s:,.0f}", joined((sends.p50_ms, sends.p99_ms)), f"{sends.server_us:,.0f}", "", "")
    ]
    for number, kind in enumerate(KINDS):
        figures = median_run([each.publishes[number] for each in rounds])
        per_s, cpu_us = figures.per_s / kind.queues, figures.server_us * kind.queues
        share, limit_us = per_s / sends.per_s, kind.limit_us(sends.server_us, signature)
        is_for_rate = kind == KINDS[0]
        share_bar = bar_cell(f"{share:.2f} of sends, ≥ {RATE_SHARE_MIN}", met=share >= RATE_SHARE_MIN)
        rows.append(
            (
                kind,
                f"{per_s:,.0f}",
                joined((figures.p50_ms, figures.p99_ms)),
                f"{cpu_us:,.0f}",
                share_bar if is_for_rate else f"{share:.2f} of sends",
                bar_cell(f"≤ {limit_us:,.0f}", met=cpu_us <= limit_us),
            )
        )
    calls = ("workload", "calls/s", "p50, p99 ms", "CPU µs a call", "rate", "bar of CPU")
    before = median_run([each.send_wake for each in rounds])
    wakes: list[tuple[object, ...]] = [("send → received", joined((before.p50_ms, before.p99_ms)), "")]
    for number, name in enumerate(("raw", "signed")):
        after = median_run([each.publish_wakes[number] for each in rounds])
        ratio = after.p50_ms / before.p50_ms
        bar = bar_cell(f"{ratio:.2f}, ≤ {WAKE_RATIO_MAX}", met=ratio <= WAKE_RATIO_MAX)
        wakes.append((f"publish → received, {name}", joined((after.p50_ms, after.p99_ms)), bar))
    return [
        *table(calls, rows),
        "",
        f"A signature by itself takes {signature:,.0f} µs of CPU.",
        "",
        *table(("one caller, one waiting receive", "p50, p99 ms", "p50, relative to a send"), wakes),
    ]
