"""Measures one side on fresh data: queues, topics and wake-ups, on one connection and on many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lab.bench.compare.sides import Side
from lab.harness.server import Server
from lab.load import polls, workloads
from lab.load.queues import Client, open_client
from lab.load.topics import Topic, saturate_queues
from lab.load.wire import LoadError
from lab.measure.figures import Figures

HANG_S = 300.0
"""Longer than any workload may take with its own limits."""
REASON_CHARS = 200
NO_TOPICS = "no topics"

Result = Figures | str
"""The figures of a workload, or why there are none."""


class Load(NamedTuple):
    """The number of operations of each workload on so many connections."""

    connections: int
    sends: int
    pairs: int
    drained: int
    publishes: int
    fanned: int
    wakes: int
    lone_cycles: int = 0
    seconds_max: float = 8.0


SEND, PAIR, DRAIN, TOPIC, FAN, WAKE, LONE = (
    *("send", "receive + delete", "drain", "topic → 1 queue", "topic → 10 queues", "wake"),
    "one caller: send, receive, delete",
)
WORKLOADS = (SEND, PAIR, DRAIN, TOPIC, FAN, WAKE, LONE)


class _Rates:
    """The workloads of one load. Each has connections and a queue of its own, so that a failure is its own."""

    def __init__(self, server: Server, side: Side, load: Load, seed: int) -> None:
        self._server = server
        self._side = side
        self._load = load
        self._seed = seed
        self._client: Client

    async def result(self, workload: str) -> Result:
        if workload in (TOPIC, FAN) and not self._side.has_topics:
            return NO_TOPICS
        return await tried(lambda: self._measured(workload))

    async def _measured(self, workload: str) -> Figures:
        connections = self._load.connections + (workload == WAKE)  # one sends
        queue = f"{WORKLOADS.index(workload)}-{self._load.connections}"
        self._client = await open_client(self._server, connections, self._seed, queue)
        try:
            return await self._figures(workload, queue)
        finally:
            self._client.close()

    async def _figures(self, workload: str, queue: str) -> Figures:
        client, load, seconds = self._client, self._load, self._load.seconds_max
        match workload:
            case "send":
                return await workloads.send(client, load.sends, seconds)
            case "receive + delete":
                stock = await workloads.send(client, load.pairs, seconds)
                return await workloads.receive_delete(client, stock.units, seconds)
            case "drain":
                stock = await workloads.send_batches(client, load.drained, seconds)
                return await workloads.drain(client, stock.units, seconds)
            case "topic → 1 queue":
                return await self._fan_out(load.publishes, [f"{queue}-to"])
            case "topic → 10 queues":
                return await self._fan_out(load.fanned, [f"{queue}-to-{number}" for number in range(10)])
            case "wake":
                return await polls.wake(client, load.wakes)
        return await workloads.cycles(client, load.lone_cycles, seconds)

    async def _fan_out(self, publishes: int, queues: list[str]) -> Figures:
        topic = Topic(self._client)
        await topic.open(queues[0], self._side.topic_attributes)
        await topic.subscribe_queues(queues, raw=False)
        return await saturate_queues(topic, publishes, queues, self._load.seconds_max)


async def measure(server: Server, side: Side, load: Load, seed: int) -> dict[str, Result]:
    """Results by workload."""
    rates = _Rates(server, side, load, seed)
    return {name: await rates.result(name) for name in WORKLOADS if name != LONE or load.lone_cycles}


async def tried(work: Callable[[], Awaitable[Figures]]) -> Result:
    """Return the result of the work, or why it failed: one that another program cannot do ends nothing."""
    try:
        async with asyncio.timeout(HANG_S):
            return await work()
    except (LoadError, OSError, KeyError) as error:  # a timeout is an OSError
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        return (lines[0] if len(lines) == 1 else f"{lines[0]}: {lines[-1]}")[:REASON_CHARS]
