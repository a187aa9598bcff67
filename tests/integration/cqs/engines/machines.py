"""Two processes of the engine `cqs` on machines whose clocks differ."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import patch

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cqs.engines.cassandra.clock_skew import ClockReading, ClockSkew
from cqs.engines.cluster import open_engine
from tests.conformance.support import QueueFixture
from tests.machine_clocks import MachineClocks

SECOND_NS = 1_000_000_000


@asynccontextmanager
async def running_processes(
    address: CassandraAddress, url: str, ahead_s: Sequence[int]
) -> AsyncIterator[list[QueueFixture]]:
    """One queue, used by a process on each of these machines, whose clocks go on."""
    async with AsyncExitStack() as stack:
        opened: list[QueueFixture] = []
        for seconds in ahead_s:
            cassandra = await Cassandra.open(address)
            stack.push_async_callback(cassandra.close)
            clock = Clock(wall_ns=wall_clock(seconds))
            engine = await stack.enter_async_context(open_engine(cassandra, url, clock))
            opened.append(QueueFixture(engine, clock))
            opened[-1].q = opened[0].q
        yield opened


@asynccontextmanager
async def processes(
    address: CassandraAddress, url: str, behind_s: int, started_s: int
) -> AsyncIterator[tuple[MachineClocks, QueueFixture, QueueFixture]]:
    """A writer on a machine whose clock is behind, and another process; both were started `started_s` ago.

    Cassandra's clock is the real one: timestamps and times to live are as in an hour of service. No process
    notices that its clock is wrong, as one does not whose clock was set just now.
    """
    real_ns = time.time_ns()  # Cassandra's clock, which the machines' clocks reach at the end
    machine = MachineClocks(real_ns - started_s * SECOND_NS)
    slow = MachineClocks(machine.wall_ns - behind_s * SECOND_NS)
    slow.runs_with(machine)
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(ClockSkew, "_read", read_own))
        opened = []
        for clocks in (slow, machine):
            cassandra = await Cassandra.open(address)
            stack.push_async_callback(cassandra.close)
            clock = clocks.clock()
            engine = await stack.enter_async_context(open_engine(cassandra, url, clock))
            opened.append(QueueFixture(engine, clock))
        writer, other = opened
        other.q = writer.q
        yield machine, writer, other


def at_present(*queues: QueueFixture) -> None:
    for queue in queues:
        queue.now_ms = queue.clock.now_ms()


async def read_own(skew: ClockSkew) -> ClockReading:
    return ClockReading(skew._clock.real_ms() - skew._clock.monotonic_ms(), 0)


def wall_clock(ahead_s: int) -> Callable[[], int]:
    return lambda: time.time_ns() + ahead_s * SECOND_NS
