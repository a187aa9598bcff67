"""Two processes whose clocks are a minute apart, before either notices; and a machine that is suspended in a send."""

from __future__ import annotations

import time

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.errors import StoreUnavailable
from cqs.engines.bdqs import schema
from cqs.engines.cassandra.clock_skew import ClockSkew
from tests.conformance.support import DONE, HIDE_MS, bodies, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, advance, bdqs_processes
from tests.integration.cqs.engines.machines import at_present, read_own
from tests.machine_clocks import MachineClocks

MINUTE_MS = 60_000
SECOND_NS = 1_000_000_000


@pytest.fixture(autouse=True)
def unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process takes its own clock for Cassandra's."""
    monkeypatch.setattr(ClockSkew, "_read", read_own)


def _clocks(behind_s: int) -> tuple[MachineClocks, MachineClocks]:
    right = MachineClocks(time.time_ns())
    wrong = MachineClocks(right.wall_ns - behind_s * SECOND_NS)
    wrong.runs_with(right)
    return right, wrong


@pytest.mark.parametrize("behind_s", [60, -60])
async def test_nothing_is_lost_or_comes_back(cassandra_address: CassandraAddress, behind_s: int) -> None:
    right, wrong = _clocks(behind_s)
    async with bdqs_processes(cassandra_address, 2, right.clock(), wrong.clock(), OrderHint="1") as both:
        at_present(*(process.queue for process in both))
        everything = numbered(20)
        for number, body in enumerate(everything):
            await both[number % 2].queue.send(body)
        advance(MINUTE_MS, *both)  # what the clock ahead sent is visible to the other, too
        for first, second in (both, both[::-1]):
            held = await first.queue.take(10)
            assert len(held) == 10
            assert await second.queue.delete(*held) == [DONE] * 10
        for _ in range(4):
            for process in both:
                assert not await process.queue.drain(0)
            advance(MINUTE_MS, *both)
        assert await both[0].queue.counts() == (0, 0, 0)


@pytest.mark.parametrize("behind_s", [60, -60])
async def test_a_lease_given_by_one_is_settled_by_the_other(cassandra_address: CassandraAddress, behind_s: int) -> None:
    """Stamps rise from delivery to delivery, although the second one's clock is behind the first one's."""
    right, wrong = _clocks(behind_s)
    async with bdqs_processes(cassandra_address, 2, right.clock(), wrong.clock()) as both:
        at_present(*(process.queue for process in both))
        await both[0].queue.send(b"one")
        advance(MINUTE_MS, *both)
        for delivery in range(1, 7):
            taker, other = both[delivery % 2], both[(delivery + 1) % 2]
            message = await taker.queue.take_one(HIDE_MS)
            assert message.deliveries == delivery
            assert await other.queue.hide(message, 0) == DONE
            advance(MINUTE_MS, *both)
        assert await both[0].queue.delete(await both[1].queue.take_one()) == [DONE]
        advance(10 * MINUTE_MS, *both)
        assert not await _all_of(both)


async def _all_of(processes: list[Process]) -> list[bytes]:
    return [body for process in processes for body in bodies(await process.queue.drain(0))]


async def test_a_send_of_a_machine_that_was_suspended_is_not_acknowledged(
    cassandra_address: CassandraAddress,
) -> None:
    """Its position may be in a slot that others retired meanwhile."""
    right, wrong = _clocks(0)
    async with bdqs_processes(cassandra_address, 2, right.clock(), wrong.clock()) as (victim, other):
        at_present(victim.queue, other.queue)

        async def suspended(run: object, statement: tuple[object, ...]) -> list[tuple[object, ...]]:
            if victim.statements == at:
                right.step(2 * schema.WRITE_MS_MAX * 1_000_000)
            return await run(*statement)  # type: ignore[operator, no-any-return]

        await victim.queue.send(b"before")
        at = victim.statements + 2
        victim._gate = suspended
        with pytest.raises(StoreUnavailable):
            await victim.queue.send(b"suspended")
