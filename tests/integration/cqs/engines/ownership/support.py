"""Processes of the engine `cqs` whose rounds and clocks the test runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import patch

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cqs.engines.cassandra.clock_skew import ClockReading, ClockSkew
from cqs.engines.cluster import ROUND_INTERVAL_S, ClusterEngine, open_engine
from cqs.engines.cluster.ownership import processes, schema
from cqs.engines.cluster.ownership.owned_queues import OwnedQueues
from cqs.engines.cluster.ownership.processes import LiveProcesses
from cqs.engines.cluster.ownership.used_queues import UsedQueues
from cqs.engines.cluster.reconciler import Reconciler
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.contract import QueueRef
from tests.conformance.support import POLL_S, QueueFixture
from tests.machine_clocks import MachineClocks

ROUND_NS = int(ROUND_INTERVAL_S * 1_000_000_000)


class Radio:
    """Knows which announcements of processes are still under way: the clocks run much faster than they arrive."""

    def __init__(self) -> None:
        self._listeners: list[LiveProcesses] = []
        self._under_way: set[tuple[LiveProcesses, str]] = set()
        self._all_heard = asyncio.Event()
        self._all_heard.set()

    def join(self, processes: LiveProcesses) -> None:
        announce = processes._announce

        def announced(node: str, alive: bool) -> None:
            self._under_way.update([(listener, node) for listener in self._listeners])
            self._all_heard.clear()
            announce(node, alive)

        processes._announce = announced
        self._listeners.append(processes)

    def heard(self, listener: LiveProcesses, node: str) -> None:
        self._under_way.discard((listener, node))
        if not self._under_way:
            self._all_heard.set()

    async def silent(self) -> None:
        """Wait until nothing is under way."""
        async with asyncio.timeout(POLL_S):
            await self._all_heard.wait()


class Process:
    """One process. Its parts are looked at, which nothing but its own code does otherwise."""

    def __init__(self, engine: ClusterEngine, clocks: MachineClocks, radio: Radio) -> None:
        self._radio = radio
        self.engine = engine
        self.clocks = clocks
        self.work = engine.work
        self.processes: LiveProcesses = engine.work.processes
        self.owned: OwnedQueues = engine.work._owned
        self.reconciler: Reconciler = engine.work._reconciler
        self.used: UsedQueues = engine._known_queues._used
        self.rows: MessageRows = engine._rows

    async def renew(self) -> None:
        await self.work.renew()
        await self._radio.silent()

    async def round(self) -> None:
        await self.renew()
        await self.work.round()

    async def use(self, queues: Sequence[QueueRef]) -> None:
        await asyncio.gather(*[self.engine._known_queues.get(q) for q in queues])

    def owned_of(self, queues: Sequence[QueueRef]) -> set[str]:
        return {q.id for q in queues if self.owned.get(q.id) is not None}


@asynccontextmanager
async def opened(
    place: CassandraAddress, url: str, n: int, *, ahead_s: Sequence[int] = (), beside: Cassandra | None = None
) -> AsyncIterator[tuple[Cassandra, list[Process]]]:
    """`n` processes; the wall clock of each is so many seconds ahead. They find no other processes and no queues,
    unless they are opened `beside` those of this session.

    All share one session, which dates their writes in the order in which they are made: their clocks stand still.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(processes, "TTL_S", 3_600))  # leases end when the test says so
        stack.enter_context(patch.object(ClockSkew, "_read", _read_own))  # no process notices that its clock is wrong
        radio = Radio()
        stack.enter_context(patch.object(LiveProcesses, "heard", _heard_by(radio)))
        cassandra = beside or await Cassandra.open(place)
        if beside is None:
            stack.push_async_callback(cassandra.close)
            for table in ("cqs_processes", "cqs_queue_users"):  # a DELETE would miss what the last test dated ahead
                await cassandra.run_schema(f"TRUNCATE {table}")
        running = []
        for number in range(n):
            clocks = MachineClocks(time.time_ns())
            clocks.step(ahead_s[number] * 1_000_000_000 if ahead_s else 0)
            engine = await stack.enter_async_context(open_engine(cassandra, url, clocks.clock(), rounds=False))
            running.append(Process(engine, clocks, radio))
            if url:
                radio.join(running[-1].processes)
        yield cassandra, running


def _heard_by(radio: Radio) -> Callable[[LiveProcesses, str, bool], None]:
    heard = LiveProcesses.heard

    def hear(listener: LiveProcesses, node: str, alive: bool) -> None:
        heard(listener, node, alive)
        radio.heard(listener, node)

    return hear


async def _read_own(skew: ClockSkew) -> ClockReading:
    return ClockReading(skew._clock.real_ms() - skew._clock.monotonic_ms(), 0)


async def run_rounds(running: Sequence[Process], n: int) -> None:
    for _ in range(n):
        for one in running:
            one.clocks.run(ROUND_NS)
            await one.round()


async def settle(running: Sequence[Process]) -> None:
    """Let all processes see one another, whether or not announcements arrive."""
    for one in [*running, *running]:
        await one.renew()
        await one.processes.read()
        await one.work.round()


async def expire_lease(cassandra: Cassandra, node: str) -> None:
    """Remove the row, as Cassandra does `TTL_S` after the last renewal."""
    await cassandra.run(schema.FORGET, node)


def fixture_of(process: Process, q: QueueRef | None = None) -> QueueFixture:
    """The queue as this process uses it, at its time."""
    queue = QueueFixture(process.engine, process.engine._clock)
    queue.q = q or queue.q
    return queue
