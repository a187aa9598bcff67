"""The time of counts before and after many deletes, in a process that made them and in one that starts afterwards."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
import uuid
from statistics import median

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cqs.engines import bdqs
from cqs.engines.cassandra.clock_skew import open_clock_skew
from cqs.engines.cluster import open_engine
from cqs.engines.contract import Engine, Entry, QueueRef
from lab.bench.background.idle import HIDE_MS, RETENTION_MS, fresh_keyspace

BATCH = 10
AT_ONCE = 32
CALLS = 200
LEFT = 1_000
"""Messages in the queue at each measurement."""


async def measure(deletes: int, url: str) -> None:
    q = QueueRef("deleted", False, RETENTION_MS)
    clock = Clock()
    print("with Redis" if url else "without Redis")
    async with fresh_keyspace() as place:
        cassandra = await Cassandra.open(place)
        async with open_engine(cassandra, url, clock, f"cqs:{place.keyspace}") as engine:
            await _send(engine, clock, q, LEFT)
            before_ms = await _counts_ms(engine, clock, q)
            _print("before any delete", before_ms, before_ms)
            await _send(engine, clock, q, deletes)
            await _delete(engine, clock, q, deletes)
            _print(f"after {deletes} deletes", await _counts_ms(engine, clock, q), before_ms)
        await cassandra.close()
        await _started_later(place, url, clock, q, before_ms)


async def measure_bdqs(deletes: int) -> None:
    q, clock = QueueRef("deleted", False, RETENTION_MS), Clock()
    print("bdqs")
    async with fresh_keyspace() as place:
        cassandra = await Cassandra.open(place)
        async with open_clock_skew(cassandra, clock) as skew, bdqs.open_engine(cassandra, clock, skew) as engine:
            await _send(engine, clock, q, BATCH)
            before_ms = await _counts_ms(engine, clock, q)
            _print("before any delete", before_ms, before_ms)
            await _send(engine, clock, q, deletes)
            await _delete(engine, clock, q, deletes)
            _print(f"after {deletes} deletes", await _counts_ms(engine, clock, q), before_ms)
        await cassandra.close()


async def _started_later(
    place: CassandraAddress, url: str, clock: Clock, q: QueueRef, before_ms: tuple[float, float]
) -> None:
    cassandra = await Cassandra.open(place)
    async with open_engine(cassandra, url, clock, f"cqs:{place.keyspace}") as engine:
        first = [await _ms(engine, clock, q, oldest=oldest) for oldest in (False, True)]
        print(
            f"  first calls of a process that starts then: {first[0]:.1f} ms, with the oldest message {first[1]:.1f} ms"
        )
        _print("its later calls", await _counts_ms(engine, clock, q), before_ms)
    await cassandra.close()


async def _send(engine: Engine, clock: Clock, q: QueueRef, n: int) -> None:
    async def send() -> None:
        now_ms = clock.now_ms()
        await engine.send(q, [Entry(str(uuid.uuid4()), b"x" * 100, now_ms, now_ms) for _ in range(BATCH)], now_ms)

    for at in range(0, n, BATCH * AT_ONCE):
        await asyncio.gather(*[send() for _ in range(min(AT_ONCE, (n - at) // BATCH))])


async def _delete(engine: Engine, clock: Clock, q: QueueRef, n: int) -> None:
    left = n

    async def receive_and_delete() -> None:
        nonlocal left
        now_ms = clock.now_ms()
        messages = (await engine.receive(q, BATCH, now_ms + HIDE_MS, now_ms)).messages
        await engine.delete(q, [message.handle for message in messages], clock.now_ms())
        left -= len(messages)

    while left > 0:
        await asyncio.gather(*[receive_and_delete() for _ in range(min(AT_ONCE, -(-left // BATCH)))])


async def _counts_ms(engine: Engine, clock: Clock, q: QueueRef) -> tuple[float, float]:
    """The medians of calls without and with the oldest message."""
    calls = {oldest: [await _ms(engine, clock, q, oldest=oldest) for _ in range(CALLS)] for oldest in (False, True)}
    return median(calls[False]), median(calls[True])


async def _ms(engine: Engine, clock: Clock, q: QueueRef, *, oldest: bool) -> float:
    begun_s = time.monotonic()
    await engine.counts(q, clock.now_ms(), oldest=oldest)
    return (time.monotonic() - begun_s) * 1000


def _print(when: str, ms: tuple[float, float], before_ms: tuple[float, float]) -> None:
    ratios = [now / before for now, before in zip(ms, before_ms, strict=True)]
    print(
        f"  {when}: {ms[0]:.2f} ms ({ratios[0]:.2f} of before),"
        f" with the oldest message {ms[1]:.2f} ms ({ratios[1]:.2f})",
        flush=True,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--deletes", type=int, default=200_000)
    parser.add_argument("--engine", choices=("cqs", "bdqs"), default="cqs")


async def run(arguments: argparse.Namespace) -> None:
    if arguments.engine == "bdqs":
        await measure_bdqs(arguments.deletes)
        return
    for url in (os.environ["CNS_REDIS"], ""):
        await measure(arguments.deletes, url)
