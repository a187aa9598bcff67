"""Processes of the engine `bdqs` on one keyspace, whose statements a test can hold, order and cut off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row
from cns_common.clock import Clock
from cqs.engines.bdqs import BdqsEngine, open_engine
from cqs.engines.cassandra.clock_skew import ClockSkew
from tests.conformance.support import QueueFixture

Run = Callable[..., Awaitable[list[Row]]]


class ProcessDied(BaseException):
    """Ends a killed process: nothing of it runs any more but what unwinds the stack."""


class Process:
    """One process with its queue. Its statements run freely unless the test takes them over."""

    def __init__(self, queue: QueueFixture, cassandra: Cassandra) -> None:
        self.queue = queue
        self.cassandra = cassandra
        self.statements = 0
        self._run: Run = cassandra._run
        cassandra._run = self._counted  # type: ignore[method-assign,assignment]
        self._gate: Callable[[Run, tuple[Any, ...]], Awaitable[list[Row]]] | None = None

    @property
    def engine(self) -> BdqsEngine:
        assert isinstance(self.queue.engine, BdqsEngine)
        return self.queue.engine

    async def _counted(self, *statement: Any) -> list[Row]:
        self.statements += 1
        if self._gate is None:
            return await self._run(*statement)
        return await self._gate(self._run, statement)

    def die_at(self, number: int, *, applied: bool) -> None:
        """Die at this statement from now on: before it is sent, or before its answer comes."""
        at = self.statements + number

        async def gate(run: Run, statement: tuple[Any, ...]) -> list[Row]:
            if self.statements < at:
                return await run(*statement)
            if self.statements == at and applied:
                await run(*statement)
            raise ProcessDied

        self._gate = gate

    def hold(self) -> Held:
        """Let each statement wait until the test lets it go."""
        held = Held()
        self._gate = held.gate
        return held

    def free(self) -> None:
        self._gate = None

    def release(self) -> None:
        """Leave the session to another process."""
        self.cassandra._run = self._run  # type: ignore[method-assign,assignment]


class Held:
    """The statements of a process that wait."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Event, asyncio.Event]] = deque()

    async def gate(self, run: Run, statement: tuple[Any, ...]) -> list[Row]:
        go, done = asyncio.Event(), asyncio.Event()
        self._waiting.append((go, done))
        await go.wait()
        try:
            return await run(*statement)
        finally:
            done.set()

    async def step(self, task: asyncio.Task[Any]) -> bool:
        """Let one statement of `task` run to its end. Returns False if the task has ended."""
        while not self._waiting:
            if task.done():
                return False
            await asyncio.sleep(0)
        go, done = self._waiting.popleft()
        go.set()
        await done.wait()
        return True


async def in_order(schedule: Sequence[int], held: Sequence[Held], tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Let the tasks' statements go one by one: those of the task that the schedule names next, then all that are left,
    task by task."""
    for number in schedule:
        await held[number].step(tasks[number])
    for gate, task in zip(held, tasks, strict=True):
        while await gate.step(task):
            pass
    await asyncio.gather(*tasks)


@asynccontextmanager
async def sessions(address: CassandraAddress, n: int) -> AsyncIterator[list[Cassandra]]:
    """Sessions that processes use one after another: to connect takes longer than a test's statements."""
    async with AsyncExitStack() as stack:
        opened = [await Cassandra.open(address) for _ in range(n)]
        for cassandra in opened:
            stack.push_async_callback(cassandra.close)
        yield opened


@asynccontextmanager
async def running(connected: Sequence[Cassandra], *clocks: Clock, **options: str) -> AsyncIterator[list[Process]]:
    """A process on each session, all using one new queue at one time. The first `clocks` are theirs."""
    async with AsyncExitStack() as stack:
        opened: list[Process] = []
        for number, cassandra in enumerate(connected):
            clock = clocks[number] if number < len(clocks) else Clock()
            skew = ClockSkew(cassandra, clock)
            await skew.begin()
            cassandra.dates.follow(clock)
            engine = await stack.enter_async_context(open_engine(cassandra, clock, skew))
            stack.push_async_callback(skew.close)
            process = Process(QueueFixture(engine, clock), cassandra)
            stack.callback(process.release)
            process.queue.q = replace(opened[0].queue.q if opened else process.queue.q, options=tuple(options.items()))
            opened.append(process)
        now_ms = max(process.queue.now_ms for process in opened)
        for process in opened:
            process.queue.now_ms = now_ms
        yield opened


@asynccontextmanager
async def bdqs_processes(
    address: CassandraAddress, n: int, *clocks: Clock, **options: str
) -> AsyncIterator[list[Process]]:
    async with sessions(address, n) as connected, running(connected, *clocks, **options) as opened:
        yield opened


def advance(ms: int, *processes: Process) -> None:
    for process in processes:
        process.queue.advance(ms)
