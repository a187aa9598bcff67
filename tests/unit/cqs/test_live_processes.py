"""A process that cannot renew its row."""

from __future__ import annotations

import pytest

from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.errors import StoreUnavailable
from cqs.engines.cluster.ownership.processes import LAPSED_MS, LiveProcesses
from tests.machine_clocks import MachineClocks


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
