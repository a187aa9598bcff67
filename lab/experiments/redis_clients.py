"""What a send, and a receive with its delete, cost in engine `cqs` over our pipe to Redis and over redis-py (ADR 0006).

    python -m lab.experiments.redis_clients [--rounds 21]

CPU µs of this process, an API process without its face. The clients take turns, each with an engine of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import uvloop
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.logs import set_up_logs
from cns_common.redis.pipe import RedisPipe, ReplyError, Word
from cqs.engines.cluster import ClusterEngine, open_engine
from cqs.engines.cluster.redis import cache
from cqs.engines.contract import Entry, QueueRef
from lab.harness.keyspace import keyspace
from lab.harness.servers import redis_url

BODY = b"x" * 1_000
MESSAGES = 320
HOUR_MS = 3_600_000


class PooledClient:
    """redis-py's client: a connection of its pool for each command."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self.client = Redis.from_url(url, socket_timeout=timeout_s, protocol=2)
        self.run_id = ""
        self.facts: dict[str, str] = {}

    async def connection(self) -> PooledClient:
        if not self.run_id:
            self.facts = await self.client.info()
            self.run_id = self.facts["run_id"]
        return self

    async def execute(self, *words: Word) -> Any:
        try:
            return await self.client.execute_command(*words)  # type: ignore[no-untyped-call]  # redis-py: untyped
        except NoScriptError as error:
            raise ReplyError(f"NOSCRIPT {error}") from error

    def close(self) -> None:
        self.run_id = ""

    async def end(self) -> None:
        await self.client.aclose()


class PipelineClient(PooledClient):
    """redis-py's pipeline: the commands of a loop turn together."""

    def __init__(self, url: str, timeout_s: float) -> None:
        super().__init__(url, timeout_s)
        self._unsent: list[tuple[asyncio.Future[Any], tuple[Word, ...]]] = []
        self._flushes: set[asyncio.Task[None]] = set()

    async def execute(self, *words: Word) -> Any:
        loop = asyncio.get_running_loop()
        if not self._unsent:
            loop.call_soon(self._begin_flush)
        future: asyncio.Future[Any] = loop.create_future()
        self._unsent.append((future, words))
        answer = await future
        if isinstance(answer, Exception):
            raise ReplyError(f"NOSCRIPT {answer}")
        return answer

    def _begin_flush(self) -> None:
        task = asyncio.create_task(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        sent, self._unsent = self._unsent, []
        pipeline = self.client.pipeline(transaction=False)
        for _, words in sent:
            pipeline.execute_command(*words)
        for (future, _), answer in zip(sent, await pipeline.execute(raise_on_error=False), strict=True):
            future.set_result(answer)


CLIENTS: dict[str, Callable[[str, float], Any]] = {
    "our pipe": RedisPipe,
    "redis-py, a pipeline per loop turn": PipelineClient,
    "redis-py, its pool": PooledClient,
}


class Workload:
    """One queue, whose messages are sent, and then received and deleted."""

    def __init__(self, engine: ClusterEngine, clock: Clock, queue_id: str) -> None:
        self._engine = engine
        self._clock = clock
        self._queue = QueueRef(queue_id, fifo=False, retention_ms=24 * HOUR_MS)
        self._number = 0

    async def send(self) -> None:
        self._number += 1
        now_ms = self._clock.now_ms()
        await self._engine.send(self._queue, [Entry(f"{self._number:032x}", BODY, now_ms, now_ms)], now_ms)

    async def receive(self) -> None:
        now_ms = self._clock.now_ms()
        found = await self._engine.receive(self._queue, 1, now_ms + HOUR_MS, now_ms, "")
        await self._engine.delete(self._queue, [message.handle for message in found.messages], now_ms)


async def cpu_us(at_once: int, work: Callable[[], Awaitable[None]]) -> float:
    async def worker() -> None:
        for _ in range(MESSAGES // at_once):
            await work()

    before_s = time.process_time()
    await asyncio.gather(*[worker() for _ in range(at_once)])
    return (time.process_time() - before_s) * 1e6 / MESSAGES


async def measure(place: CassandraAddress, rounds: int) -> None:
    clock = Clock()
    cassandra = await Cassandra.open(place)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(cassandra.close)
        loads: dict[str, Workload] = {}
        for name, client in CLIENTS.items():
            cache.RedisPipe = client  # type: ignore[attr-defined, assignment]  # the engine that is opened next takes it
            engine = await stack.enter_async_context(open_engine(cassandra, redis_url(), clock, place.keyspace))
            loads[name] = Workload(engine, clock, f"queue of {name}")
        for at_once in (1, 16):
            sends, receives = [{name: list[float]() for name in loads} for _ in range(2)]
            for _ in range(rounds):
                for name, load in loads.items():
                    sends[name].append(await cpu_us(at_once, load.send))
                    receives[name].append(await cpu_us(at_once, load.receive))
            for title, found in (("send", sends), ("receive and delete", receives)):
                for name, measured in found.items():
                    print(f"{title}, {at_once} at once, {name}: {statistics.median(measured):.0f} µs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    set_up_logs("warning", "lab")
    with keyspace() as measured_place:
        uvloop.run(measure(measured_place, options.rounds))
