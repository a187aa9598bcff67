"""Groups that wait keep nothing from those that do not, however many they are."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Engine
from tests.conformance.support import Desk, bodies

pytestmark = pytest.mark.needs(fifo=True)

BLOCKED_GROUPS = 500
ROUNDS = 10


async def _blocked(engine: Engine, clock: Clock, groups: int) -> Desk:
    """A queue with so many groups whose first message is in flight and whose second waits behind it."""
    desk = Desk(engine, clock, fifo=True)
    await _send_one_to_each(desk, groups)
    taken = 0
    while taken < groups:
        batches = await asyncio.gather(*[desk.take(10, hide_ms=3_600_000) for _ in range(20)])
        taken += sum(map(len, batches))
    await _send_one_to_each(desk, groups)
    return desk


async def _send_one_to_each(desk: Desk, groups: int) -> None:
    entries = [desk.entry(b"blocked", group=f"blocked {group}") for group in range(groups)]
    for start in range(0, groups, 1_000):
        await desk.put(entries[start : start + 1_000])


async def test_a_free_group_does_not_wait_for_blocked_ones(engine: Engine, clock: Clock) -> None:
    """What it costs beside them is counted in `tests/integration/cqs/engines`, and measured by the bench (`groups`)."""
    desk = await _blocked(engine, clock, BLOCKED_GROUPS)
    for i in range(ROUNDS):
        await desk.send(b"%d" % i, group="free")
        (message,) = await desk.take()
        assert message.body == b"%d" % i
        await desk.delete(message)


async def test_each_of_many_groups_gets_its_turn(engine: Engine, clock: Clock) -> None:
    desk = Desk(engine, clock, fifo=True)
    for round_ in range(3):
        await desk.put([desk.entry(b"%d" % round_, group=f"{group}") for group in range(500)])
    seen: dict[str, list[bytes]] = {}
    while messages := await desk.take():
        for message in messages:
            seen.setdefault(message.group, []).extend(bodies([message]))
        await desk.delete(*messages)
    assert len(seen) == 500
    assert set(map(tuple, seen.values())) == {(b"0", b"1", b"2")}
