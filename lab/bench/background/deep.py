"""A process that starts with an empty cache: a deep queue, another queue beside it, and many queues at once."""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from statistics import median

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.cluster import ClusterEngine, open_engine, refill
from cqs.engines.cluster.cache_contract import Cache
from cqs.engines.cluster.ids import NODE_DIGITS, QueueShard
from cqs.engines.cluster.refill import FillSlots
from cqs.engines.cluster.rows import MessageRows, RowHeader
from cqs.engines.contract import Entry, QueueRef
from lab.bench.background.idle import HIDE_MS, RETENTION_MS, address_of, fresh_keyspace

BODY = b"x" * 100
ROWS_PER_BATCH = 50
BATCHES_AT_ONCE = 16
PER_QUEUE = 10
PAUSE_S = 0.02
"""Between two receives from the queue beside the deep one."""

DEEP, BESIDE = QueueRef("deep", False, RETENTION_MS), QueueRef("beside", False, RETENTION_MS)


def many(queues: int) -> list[QueueRef]:
    return [QueueRef(f"one-of-many-{number}", False, RETENTION_MS) for number in range(queues)]


async def measure(rows: int, queues: int) -> None:
    async with fresh_keyspace() as place:
        cassandra = await Cassandra.open(place)
        clock = Clock()
        writer = MessageRows(cassandra, clock, hex_id()[:NODE_DIGITS])
        await _write(writer, clock, [DEEP] * (rows // ROWS_PER_BATCH), ROWS_PER_BATCH)
        await _write(writer, clock, [BESIDE, *many(queues)], PER_QUEUE)
        await cassandra.close()
        words = ("-m", "lab.bench.background", "deep", "--rows", str(rows), "--queues", str(queues))
        child = await asyncio.create_subprocess_exec(sys.executable, *words, "--child", place.keyspace)
        await child.wait()


async def _write(rows: MessageRows, clock: Clock, queues: Sequence[QueueRef], n: int) -> None:
    """Write rows that are in no cache."""

    async def write(q: QueueRef) -> None:
        now_ms = clock.now_ms()
        await rows.insert(q.id, 0, [Entry(str(uuid.uuid4()), BODY, now_ms, now_ms) for _ in range(n)], now_ms)

    for at in range(0, len(queues), BATCHES_AT_ONCE):
        await asyncio.gather(*[write(q) for q in queues[at : at + BATCHES_AT_ONCE]])


async def child(keyspace: str, rows: int, queues: int) -> None:
    clock = Clock()
    cassandra = await Cassandra.open(address_of(keyspace))
    async with open_engine(cassandra, os.environ["CNS_REDIS"], clock, f"cqs:{keyspace}") as engine:
        before_mib = _peak_mib()
        await _deep(engine, clock, rows)
        print(f"memory of the process: {before_mib:.0f} MiB before, {_peak_mib():.0f} MiB at most", flush=True)
        await _many(engine, clock, queues)
        print(f"memory of the process: {_peak_mib():.0f} MiB at most", flush=True)
    await cassandra.close()


async def _deep(engine: ClusterEngine, clock: Clock, rows: int) -> None:
    begun_s = time.monotonic()
    filled = asyncio.create_task(_until_filled(engine, clock, rows))
    first = asyncio.create_task(_seconds(lambda: _receive(engine, clock, DEEP)))
    beside: list[float] = []
    while not filled.done():
        beside.append(await _seconds(lambda: _send_and_receive(engine, clock)))
        await asyncio.sleep(PAUSE_S)
    await filled
    took_s = time.monotonic() - begun_s
    print(f"{rows} messages: the first after {await first:.2f} s, all in the cache after {took_s:.1f} s")
    print(
        f"meanwhile {len(beside)} times one message sent to another queue and received:"
        f" median {median(beside) * 1000:.0f} ms, at most {max(beside) * 1000:.0f} ms",
        flush=True,
    )


async def _until_filled(engine: ClusterEngine, clock: Clock, rows: int) -> None:
    total = 0
    while total < rows:
        counts = await engine.counts(DEEP, clock.now_ms())
        total = counts.visible + counts.in_flight + counts.delayed


async def _many(engine: ClusterEngine, clock: Clock, queues: int) -> None:
    most = 0
    fill_step = refill._fill_step
    under_way = 0

    async def counted(
        cache: Cache, shard: QueueShard, filler: str, pages: AsyncIterator[list[RowHeader]], now_ms: int
    ) -> bool | None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        try:
            return await fill_step(cache, shard, filler, pages, now_ms)
        finally:
            under_way -= 1

    refill._fill_step = counted
    begun_s = time.monotonic()
    waits = await asyncio.gather(*[_seconds(partial(_receive, engine, clock, q)) for q in many(queues)])
    took_s = time.monotonic() - begun_s
    print(
        f"{queues} queues received from at once: first messages after {median(waits):.2f} s (median),"
        f" {took_s:.1f} s (last); at most {most} of {FillSlots().in_step._value} fills in a step at once"
    )


async def _receive(engine: ClusterEngine, clock: Clock, q: QueueRef) -> None:
    """Until messages come."""
    while not (await engine.receive(q, 10, clock.now_ms() + HIDE_MS, clock.now_ms())).messages:
        pass


async def _send_and_receive(engine: ClusterEngine, clock: Clock) -> None:
    now_ms = clock.now_ms()
    await engine.send(BESIDE, [Entry(str(uuid.uuid4()), BODY, now_ms, now_ms)], now_ms)
    for message in (await engine.receive(BESIDE, 10, now_ms + HIDE_MS, clock.now_ms())).messages:
        await engine.delete(BESIDE, [message.handle], clock.now_ms())


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    begun_s = time.monotonic()
    await work()
    return time.monotonic() - begun_s


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="messages of the deep queue")
    parser.add_argument("--queues", type=int, default=1_000, help="queues that are received from at once")
    parser.add_argument("--child", metavar="KEYSPACE", help=argparse.SUPPRESS)


async def run(arguments: argparse.Namespace) -> None:
    if arguments.child:
        await child(arguments.child, arguments.rows, arguments.queues)
    else:
        await measure(arguments.rows, arguments.queues)
