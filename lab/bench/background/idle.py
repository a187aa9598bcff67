"""Statements per second of processes whose queues are idle. Each process is a child that opens the engine, uses every
queue once, and then only counts."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.configuration.checks import read_contact_points
from cqs.engines.cluster import open_engine
from cqs.engines.contract import Entry, QueueRef

HIDE_MS = 30_000
RETENTION_MS = 4 * 86_400_000
AT_ONCE = 32
ANSWER = "answer:"
"""Begins a line of a child's output that is no log event."""


class CountingCassandra(Cassandra):
    """Also counts statements by their text."""

    counted: Counter[str]

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        self.counted[statement.cql] += 1
        return await super().run(statement, *values)


def address_of(keyspace: str) -> CassandraAddress:
    points = read_contact_points(os.environ["CNS_CASSANDRA"])
    return CassandraAddress(hosts=points.hosts, port=points.port, keyspace=keyspace)


@asynccontextmanager
async def fresh_keyspace() -> AsyncIterator[CassandraAddress]:
    place = address_of(f"bench_{uuid.uuid4().hex[:12]}")
    await schema.apply(place, 1)
    try:
        yield place
    finally:
        cassandra = await Cassandra.open(place, keyspace=False)
        await cassandra.run_schema(f"DROP KEYSPACE IF EXISTS {place.keyspace}")
        await cassandra.close()


async def child(keyspace: str, queues: int) -> None:
    """Obeys lines of standard input: `use` uses all queues, `count` answers with the statements so far."""
    clock = Clock()
    cassandra = await CountingCassandra.open(address_of(keyspace))
    assert isinstance(cassandra, CountingCassandra)
    cassandra.counted = Counter()
    names = [QueueRef(f"idle-{number}", False, RETENTION_MS) for number in range(queues)]
    async with open_engine(cassandra, os.environ["CNS_REDIS"], clock, f"cqs:{keyspace}") as engine:

        async def use(q: QueueRef) -> None:
            now_ms = clock.now_ms()
            await engine.send(q, [Entry(str(uuid.uuid4()), b"x" * 100, now_ms, now_ms)], now_ms)
            for message in (await engine.receive(q, 10, now_ms + HIDE_MS, clock.now_ms())).messages:
                await engine.delete(q, [message.handle], clock.now_ms())

        print(ANSWER, flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if line == "use":
                for at in range(0, len(names), AT_ONCE):
                    await asyncio.gather(*[use(q) for q in names[at : at + AT_ONCE]])
            print(ANSWER + json.dumps([cassandra.statements, cassandra.counted]), flush=True)
    await cassandra.close()


async def measure(processes: int, queues: int, settle_s: float, seconds: float, *, by_text: bool) -> None:
    async with fresh_keyspace() as place:
        words = (
            sys.executable,
            "-m",
            "lab.bench.background",
            "idle",
            "--child",
            place.keyspace,
            "--queues",
            str(queues),
        )
        pipe = asyncio.subprocess.PIPE
        children = [
            await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=1 << 20)
            for _ in range(processes)
        ]

        async def ask(one: asyncio.subprocess.Process, word: str) -> tuple[int, Counter[str]]:
            assert one.stdin is not None
            one.stdin.write(f"{word}\n".encode())
            total, counted = json.loads(await _answer(one))
            return total, Counter(counted)

        for one in children:
            await _answer(one)
        await asyncio.sleep(settle_s)
        fresh = [await ask(one, "count") for one in children]
        await asyncio.sleep(settle_s)
        fresh_end = [await ask(one, "count") for one in children]
        await asyncio.gather(*[ask(one, "use") for one in children])
        await asyncio.sleep(settle_s)
        begin = [await ask(one, "count") for one in children]
        await asyncio.sleep(seconds)
        end = [await ask(one, "count") for one in children]
        for one in children:
            assert one.stdin is not None
            one.stdin.close()
        await asyncio.gather(*[one.wait() for one in children])
    unused = sum(after[0] - before[0] for before, after in zip(fresh, fresh_end, strict=True)) / settle_s
    idle = sum(after[0] - before[0] for before, after in zip(begin, end, strict=True)) / seconds
    print(f"{processes} processes, {queues} queues: before any use {unused:.1f}/s, idle after use {idle:.1f}/s")
    if by_text:
        texts: Counter[str] = Counter()
        for before, after in zip(begin, end, strict=True):
            texts += after[1] - before[1]
        for text, count in texts.most_common(12):
            print(f"  {count / seconds:8.2f}/s  {text[:110]}")


async def _answer(one: asyncio.subprocess.Process) -> str:
    assert one.stdout is not None
    while not (line := (await one.stdout.readline()).decode()).startswith(ANSWER):
        assert line, "a process ended"
    return line.removeprefix(ANSWER)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--settle", type=float, default=10, help="seconds before counting")
    parser.add_argument("--seconds", type=float, default=30, help="seconds of counting")
    parser.add_argument("--by-text", action="store_true", help="list the most frequent statements")
    parser.add_argument("--child", metavar="KEYSPACE", help=argparse.SUPPRESS)


async def run(arguments: argparse.Namespace) -> None:
    if arguments.child:
        await child(arguments.child, arguments.queues)
        return
    for processes in arguments.processes:
        await measure(processes, arguments.queues, arguments.settle, arguments.seconds, by_text=arguments.by_text)
