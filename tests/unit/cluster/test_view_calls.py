"""The calls of one process's view."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cluster.view import View
from cns_common.errors import StoreUnavailable
from tests.machine_clocks import MachineClocks
from tests.unit.cluster.simulated_group import MEMBERS, VIEW, Partition, QuickCassandra


class Group:
    def __init__(self) -> None:
        self.partition = Partition()

    def process(self, name: str) -> tuple[View, QuickCassandra]:
        cassandra = QuickCassandra(name, self.partition)
        return View(cassandra, MachineClocks().clock(), VIEW, MEMBERS, name, "view"), cassandra

    def show(self) -> None:
        """Let all reads see the newest decision."""
        self.partition.show_to(["a", "b"])


async def _acting(group: Group, name: str) -> tuple[View, QuickCassandra]:
    view, cassandra = group.process(name)
    group.show()
    view.act_by((await view.renew()).epoch)
    await view.renew()
    assert view.is_certain
    return view, cassandra


async def test_of_two_first_proposals_one_wins() -> None:
    group = Group()
    (one, _), (other, _) = group.process("a"), group.process("b")
    first = await one.propose("x", above=7)
    assert first > 7
    assert not await other.propose("y")
    group.show()
    assert (await other.renew()).decision == "x"
    assert await other.propose("y", above=first + 10) == first + 11


async def test_concurrent_callers_make_one_renewal() -> None:
    """One that hangs up does not take it from the others."""
    group = Group()
    await group.process("a")[0].propose("x")
    view, cassandra = await _acting(group, "a")
    view.act_by(view.epoch)
    cassandra.going_on.clear()
    before = cassandra.statements
    callers = [asyncio.create_task(view.ensure_certain()) for _ in range(3)]
    await asyncio.sleep(0)
    callers[0].cancel()
    cassandra.going_on.set()
    await asyncio.gather(*callers, return_exceptions=True)
    assert view.is_certain
    assert cassandra.statements - before == 3  # the row, the read, the confirmation


async def test_a_short_failure_is_tried_again() -> None:
    group = Group()
    await group.process("a")[0].propose("x")
    view, cassandra = await _acting(group, "a")
    view.act_by(view.epoch)
    cassandra.failures = 2
    await view.ensure_certain()
    assert view.is_certain
    view.act_by(view.epoch)
    cassandra.failures = 3
    with pytest.raises(StoreUnavailable):
        await view.ensure_certain()


async def test_another_epoch_is_told_until_it_is_acted_by() -> None:
    group = Group()
    await group.process("a")[0].propose("x")
    (one, cassandra), (other, _) = await _acting(group, "a"), await _acting(group, "b")
    newer = await other.propose("y")
    group.show()
    await one.ensure_certain()
    assert one.is_certain and not one.changed.is_set()
    await one.renew()
    assert one.changed.is_set()
    cassandra.going_on.clear()
    late = asyncio.create_task(one.renew())
    await asyncio.sleep(0)
    one.act_by(newer)
    cassandra.going_on.set()
    assert (await late).epoch == newer
    assert not one.changed.is_set(), "the renewal had begun under the epoch before"
    assert not one.is_certain
    await one.renew()
    assert one.is_certain


async def test_after_its_end_no_row_is_written() -> None:
    group = Group()
    await group.process("a")[0].propose("x")
    (one, cassandra), (other, _) = await _acting(group, "a"), await _acting(group, "b")
    before = cassandra.statements
    one.act_by(one.epoch)
    cassandra.holds = "write"
    cassandra.going_on.clear()
    caller = asyncio.create_task(one.ensure_certain())
    while cassandra.statements == before:
        await asyncio.sleep(0)
    await one.leave()
    cassandra.going_on.set()
    await asyncio.gather(caller, return_exceptions=True)
    assert (await other.renew()).others == 0
    with pytest.raises(StoreUnavailable):
        await one.renew()
