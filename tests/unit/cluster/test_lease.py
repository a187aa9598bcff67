"""A lease is certain, due and ended for its holder by two clocks."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cluster.lease import Lease, LeaseTimes
from cns_common.cluster.membership import Membership
from tests.machine_clocks import MachineClocks
from tests.unit.cluster.simulated_group import MEMBERS, MS, TTL_S, Partition, QuickCassandra

TIMES = LeaseTimes(certain_ms=1_000, renew_ms=400)


async def test_it_is_due_before_it_is_uncertain() -> None:
    machine = MachineClocks()
    lease = Lease(machine.clock(), TIMES)
    assert lease.is_due and not lease.is_certain
    assert await lease.extend(_answer(True))
    assert lease.is_certain and not lease.is_due
    machine.run(400 * MS)
    assert lease.is_certain and lease.is_due
    machine.run(600 * MS)
    assert not lease.is_certain and lease.held


async def test_its_age_counts_from_the_request() -> None:
    machine = MachineClocks()
    lease = Lease(machine.clock(), TIMES)

    async def slow() -> bool:
        machine.run(700 * MS)
        return True

    await lease.extend(slow())
    assert lease.age_ms == 700


async def test_a_refused_extension_ends_it() -> None:
    lease = Lease(MachineClocks().clock(), TIMES)
    await lease.extend(_answer(True))
    assert not await lease.extend(_answer(False))
    assert not lease.held and not lease.is_certain


def test_a_late_answer_does_not_shorten_it() -> None:
    machine = MachineClocks()
    lease = Lease(machine.clock(), TIMES)
    earlier = lease.begin()
    machine.run(300 * MS)
    lease.hold(lease.begin())
    lease.hold(earlier)
    assert lease.age_ms == 0
    lease.end()
    lease.hold(earlier)
    assert lease.age_ms == 300


@pytest.mark.parametrize("step_ms", [-60_000, 60_000])
async def test_a_clock_that_is_set_ends_certainty(step_ms: int) -> None:
    machine = MachineClocks()
    lease = Lease(machine.clock(), TIMES)
    await lease.extend(_answer(True))
    machine.step(step_ms * MS)
    assert not lease.is_certain


async def test_a_member_knows_whether_its_row_lasted() -> None:
    """It was there all the time if the lease was certain when the next write had ended."""
    machine, cassandra = MachineClocks(), QuickCassandra("p", Partition())
    member = Membership(cassandra, machine.clock(), MEMBERS, "p", "group")
    assert not await member.renew(1, "")
    machine.run(1_000 * MS)
    assert await member.renew(1, "")
    cassandra.takes = lambda: machine.run(TTL_S * 1_000 * MS)
    assert not await member.renew(1, "")


async def _answer(answer: bool) -> bool:  # what a request of a lease answers
    await asyncio.sleep(0)
    return answer
