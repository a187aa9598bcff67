"""A process that cannot renew its row."""

from __future__ import annotations

import pytest

from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.errors import StartError, StoreUnavailable
from cqs.engines.cluster.ownership import schema
from cqs.engines.cluster.ownership.processes import LAPSED_MS, RENEW_INTERVAL_MS, TTL_S, LiveProcesses
from tests.machine_clocks import START_NS, MachineClocks

SECOND_NS = 1_000_000_000


class AwayCassandra(Cassandra):
    """Answers while it is not `away`."""

    def __init__(self) -> None:
        self.away = False

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        if self.away:
            raise StoreUnavailable("away")
        return []


async def test_an_outage_ends_one_life_only() -> None:
    """However often it tries to come back: each new life has a name, and a line in the log."""
    cassandra, machine = AwayCassandra(), MachineClocks()
    processes = LiveProcesses(cassandra, machine.clock(), "n", lambda node, alive: None)
    await processes.step()
    first = processes.node
    cassandra.away = True
    names = []
    for _ in range(3):
        machine.run(LAPSED_MS * 1_000_000)
        with pytest.raises(StoreUnavailable):
            await processes.step()
        names.append(processes.node)
        assert not processes.is_certain
    cassandra.away = False
    await processes.step()
    assert processes.is_certain
    assert {*names, processes.node} == {names[0]} != {first}


async def test_a_process_is_away_until_it_may_return() -> None:
    """Others may have begun what waits for its end; it is among the living ones again before it asks about that."""
    machine, objections = MachineClocks(), ["it was moved"]
    processes = LiveProcesses(AwayCassandra(), machine.clock(), "n", lambda node, alive: None)
    assert processes.is_away
    await processes.step()
    assert not processes.is_away
    machine.run(LAPSED_MS * 1_000_000)
    assert processes.is_away

    async def object_once() -> None:
        assert processes.is_certain
        if objections:
            raise StartError(objections.pop(), 78)

    processes.on_shown = object_once
    with pytest.raises(StartError, match="it was moved"):
        await processes.step()
    assert processes.is_away
    machine.run(RENEW_INTERVAL_MS * 1_000_000)
    await processes.step()
    assert not processes.is_away

    objections.append("it was moved in a pause that no clock shows")
    machine.run(RENEW_INTERVAL_MS * 1_000_000)
    with pytest.raises(StartError, match="no clock shows"):
        await processes.step()
    assert processes.is_away


class RowsOfSeconds(AwayCassandra):
    """Ends rows as Cassandra does, by the whole second. A write arrives after `late_s`."""

    def __init__(self, machine: MachineClocks) -> None:
        super().__init__()
        self._machine = machine
        self.late_s = 0
        self.ends_s = 0

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        if statement is schema.RENEW:
            self._machine.run(self.late_s * SECOND_NS)
            self.ends_s = self._machine.wall_ns // SECOND_NS + TTL_S
        return await super().run(statement, *values)

    @property
    def has_row(self) -> bool:
        return self._machine.wall_ns // SECOND_NS < self.ends_s


async def test_a_process_is_away_before_its_row_has_expired() -> None:
    machine = MachineClocks(START_NS + SECOND_NS - 1)
    cassandra = RowsOfSeconds(machine)
    processes = LiveProcesses(cassandra, machine.clock(), "n", lambda node, alive: None)
    await processes.step()
    while cassandra.has_row:
        machine.run(SECOND_NS // 10)
    assert processes.is_away


async def test_a_row_that_expired_before_its_renewal_came_ends_a_life() -> None:
    """Others may have removed what the process noted under its name, and a move may have begun."""
    machine, returns = MachineClocks(), []
    cassandra = RowsOfSeconds(machine)
    processes = LiveProcesses(cassandra, machine.clock(), "n", lambda node, alive: None)
    await processes.step()
    first = processes.node

    async def look() -> None:
        returns.append(processes.node)

    processes.on_shown = look
    machine.run(LAPSED_MS * 1_000_000 - SECOND_NS)
    cassandra.late_s = TTL_S - LAPSED_MS // 1_000 + 1
    await processes.step()
    assert processes.is_away
    cassandra.late_s = 0
    await processes.step()
    assert not processes.is_away
    assert returns == [processes.node] != [first]
