"""The comparison of a process's clock with Cassandra's, over a Cassandra whose clocks the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import cycle
from typing import cast

import pytest
import structlog

from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cns_common.metrics.catalogue import CLOCK_OFFSET_SECONDS, CLOCK_RECEIVES_REFUSED
from cqs.engines.cassandra.clock_skew import NEGLIGIBLE_MS, READINGS, REFUSED_MS, ClockSkew
from tests.machine_clocks import MachineClocks

MS = 1_000_000


class Nodes:
    """Nodes that answer in turn. `ahead_ms`: how far each one's clock is ahead of the true time."""

    def __init__(self, machine: MachineClocks, *ahead_ms: int) -> None:
        self._machine = machine
        self._zero_ns = machine.wall_ns - machine.monotonic_ns
        self._ahead_ms: Iterator[int] = cycle(ahead_ms or (0,))
        self.suspended_ns = 0
        self.takes_ns = 0
        self.statements = 0
        self.is_lost = False

    async def run(self, _: Statement) -> list[Row]:
        await asyncio.sleep(0)
        if self.is_lost:
            raise StoreUnavailable("lost")
        self.statements += 1
        self._machine.run(self.takes_ns // 2)
        true_ns = self._zero_ns + self._machine.monotonic_ns + self.suspended_ns
        self._machine.run(self.takes_ns // 2)
        return [(true_ns // MS + next(self._ahead_ms),)]


async def _skew(machine: MachineClocks, nodes: Nodes, clock: Clock | None = None) -> ClockSkew:
    skew = ClockSkew(cast(Cassandra, nodes), clock or machine.clock())
    await skew.ensure()
    return skew


@pytest.fixture
def machine() -> MachineClocks:
    return MachineClocks()


@pytest.fixture
def nodes(machine: MachineClocks) -> Nodes:
    return Nodes(machine)


WRONG_MS = [-60_000, -5_000, 5_000, 120_000]


@pytest.mark.parametrize("by_ms", WRONG_MS)
async def test_a_clock_is_set_before_its_use(machine: MachineClocks, nodes: Nodes, by_ms: int) -> None:
    machine.step(by_ms * MS)
    clock = machine.clock()
    skew = ClockSkew(cast(Cassandra, nodes), clock)
    with structlog.testing.capture_logs() as logged:
        await skew.begin()
    assert [(entry["event"], entry["seconds"]) for entry in logged] == [("clock.skew_detected", by_ms / 1000)]
    for _ in range(2):
        assert clock.now_ms() == clock.wall_ms() == clock.real_ms() - by_ms
        assert (skew.offset_ms, skew.ahead_ms, skew.machine_offset_ms) == (0, 0, by_ms)
        assert CLOCK_OFFSET_SECONDS.sample(by_ms / 1000) in skew.samples()
        machine.run(3_600_000 * MS)
    machine.step(-by_ms * MS)
    with structlog.testing.capture_logs() as logged:
        await skew.ensure()
    assert [entry["event"] for entry in logged] == ["clock.skew_cleared"]
    assert clock.now_ms() == clock.real_ms()
    skew.refuse_if_wrong()


@pytest.mark.parametrize("by_ms", WRONG_MS)
async def test_a_clock_in_use_is_corrected(machine: MachineClocks, nodes: Nodes, by_ms: int) -> None:
    """Time never goes back: what it is ahead of Cassandra's is subtracted while it stands still."""
    machine.step(by_ms * MS)
    clock = machine.clock()
    before_ms = clock.now_ms()
    skew = await _skew(machine, nodes, clock)
    assert clock.now_ms() == max(before_ms, before_ms - by_ms)
    assert skew.offset_ms == skew.ahead_ms == max(by_ms, 0)
    assert clock.wall_ms() - skew.ahead_ms == clock.real_ms() - by_ms
    machine.run(120_000 * MS)
    assert skew.ahead_ms == skew.offset_ms == 0
    assert clock.now_ms() == clock.real_ms() - by_ms


async def test_small_differences_do_not_move_the_time(machine: MachineClocks, nodes: Nodes) -> None:
    machine.step((NEGLIGIBLE_MS - 10) * MS)
    skew = await _skew(machine, nodes)
    assert skew.offset_ms == NEGLIGIBLE_MS - 10
    assert skew.ahead_ms == 0


async def test_a_slow_answer_counts_by_its_error_only(machine: MachineClocks, nodes: Nodes) -> None:
    machine.step(3_000 * MS)
    nodes.takes_ns = 4_000 * MS
    skew = await _skew(machine, nodes)
    assert skew.ahead_ms == 0
    assert skew.bound_ms > 3_000


async def test_one_node_with_a_wrong_clock_is_outvoted(machine: MachineClocks) -> None:
    skew = await _skew(machine, Nodes(machine, 0, 60_000, 0))
    assert skew.ahead_ms == 0


async def test_a_measurement_serves_all_and_lasts(machine: MachineClocks, nodes: Nodes) -> None:
    skew = ClockSkew(cast(Cassandra, nodes), machine.clock())
    await asyncio.gather(*[skew.ensure() for _ in range(20)])
    machine.run(3_600_000 * MS)
    await skew.ensure()
    assert nodes.statements == READINGS


@pytest.mark.parametrize("by_ms", [-90_000, -10_000, 10_000, 90_000])
async def test_a_clock_that_is_set_is_measured_again(machine: MachineClocks, nodes: Nodes, by_ms: int) -> None:
    """A step forward of a minute moves the process's time, too; a smaller one or one back does not."""
    clock = machine.clock()
    skew = await _skew(machine, nodes, clock)
    machine.step(by_ms * MS)
    assert not skew.known
    await skew.ensure()
    assert skew.known
    true_ms = nodes._zero_ns // MS + clock.monotonic_ms()
    assert clock.wall_ms() - skew.ahead_ms == true_ms


async def test_a_machine_that_was_suspended_measures_again(machine: MachineClocks, nodes: Nodes) -> None:
    clock = machine.clock()
    skew = await _skew(machine, nodes, clock)
    nodes.suspended_ns = 30_000 * MS
    machine.step(30_000 * MS)
    await skew.ensure()
    assert clock.wall_ms() - skew.ahead_ms == clock.real_ms()


async def test_a_test_clock_that_was_advanced_is_right(machine: MachineClocks, nodes: Nodes) -> None:
    clock = machine.clock(test=True)
    clock.advance(3_600_000)
    skew = await _skew(machine, nodes, clock)
    assert skew.ahead_ms == 0
    skew.refuse_if_wrong()


@pytest.mark.parametrize(("by_ms", "word"), [(REFUSED_MS + 300, "ahead of"), (-REFUSED_MS - 300, "behind")])
async def test_a_very_wrong_clock_is_refused(machine: MachineClocks, nodes: Nodes, by_ms: int, word: str) -> None:
    machine.step(by_ms * MS)
    skew = await _skew(machine, nodes)
    with pytest.raises(StoreUnavailable, match=f"5 s {word}"):
        skew.refuse_if_wrong()
    assert CLOCK_RECEIVES_REFUSED.sample(1) in skew.samples()
    machine.step(-by_ms * MS)
    machine.run(abs(by_ms) * MS)  # message time never goes back: it waits for the clock that was set
    await skew.ensure()
    assert CLOCK_RECEIVES_REFUSED.sample(0) in skew.samples()


async def test_without_a_measurement_nothing_is_known(machine: MachineClocks, nodes: Nodes) -> None:
    nodes.is_lost = True
    skew = ClockSkew(cast(Cassandra, nodes), machine.clock())
    with pytest.raises(StoreUnavailable):
        await skew.ensure()
    with pytest.raises(StoreUnavailable, match="not compared"):
        skew.refuse_if_wrong()
    await skew.begin()  # the process starts all the same
    assert not skew.known
    assert skew.ahead_ms == 0
    assert not skew.samples()
    nodes.is_lost = False
    await skew.ensure()
    assert skew.known
    skew.refuse_if_wrong()
