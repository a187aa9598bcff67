"""Blocked groups do not delay other groups, however many there are."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Engine
from tests.conformance.support import QueueFixture, bodies

pytestmark = pytest.mark.needs(fifo=True)

BLOCKED_GROUPS = 500
ROUNDS = 10


async def _blocked(engine: Engine, clock: Clock, groups: int) -> QueueFixture:
    """A queue with this many groups that have their first message in flight and a second one behind it."""
    queue = QueueFixture(engine, clock, fifo=True)
    await _send_one_to_each(queue, groups)
    taken = 0
    while taken < groups:
        batches = await asyncio.gather(*[queue.take(10, hide_ms=3_600_000) for _ in range(20)])
        taken += sum(map(len, batches))
    await _send_one_to_each(queue, groups)
    return queue


async def _send_one_to_each(queue: QueueFixture, groups: int) -> None:
    entries = [queue.entry(b"blocked", group=f"blocked {group}") for group in range(groups)]
    for start in range(0, groups, 1_000):
        await queue.send_entries(entries[start : start + 1_000])


async def test_a_free_group_does_not_wait_for_blocked_groups(engine: Engine, clock: Clock) -> None:
    """Its cost is counted in `tests/integration/cqs/engines` and measured by the bench (`groups`)."""
    queue = await _blocked(engine, clock, BLOCKED_GROUPS)
    for i in range(ROUNDS):
        await queue.send(b"%d" % i, group="free")
        (message,) = await queue.take()
        assert message.body == b"%d" % i
        await queue.delete(message)


async def test_each_of_many_groups_gets_its_turn(engine: Engine, clock: Clock) -> None:
    queue = QueueFixture(engine, clock, fifo=True)
    for round_ in range(3):
        await queue.send_entries([queue.entry(b"%d" % round_, group=f"{group}") for group in range(500)])
    seen: dict[str, list[bytes]] = {}
    while messages := await queue.take():
        for message in messages:
            seen.setdefault(message.group, []).extend(bodies([message]))
        await queue.delete(*messages)
    assert len(seen) == 500
    assert set(map(tuple, seen.values())) == {(b"0", b"1", b"2")}
