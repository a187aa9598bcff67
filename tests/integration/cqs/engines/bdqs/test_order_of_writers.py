"""Two writers whose machines' clocks differ: all front-ends see one order, and how far it is from that of the sends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cqs.engines.cassandra.clock_skew import ClockSkew
from tests.conformance.support import bodies, displacement
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, bdqs_processes
from tests.integration.cqs.engines.machines import read_own, wall_clock
from tests.marks import first

MESSAGES = 40
STEP_MS = 50
"""Time between two sends, which the writers do in turn."""
RIGHT_MS = 500
"""The largest difference of two clocks that follow Cassandra's."""
MINUTE_MS = 60_000


async def _order(both: Sequence[Process], ahead_ms: int) -> list[int]:
    """The order in which a front-end gives out what both send in turn. The second one's clock is so far ahead."""
    begin_ms = both[0].queue.now_ms
    for number in range(MESSAGES):
        writer = both[number % 2]
        writer.queue.now_ms = begin_ms + number * STEP_MS + (number % 2) * ahead_ms
        await writer.queue.send(b"%d" % number)
    for process in both:
        process.queue.now_ms = begin_ms + MESSAGES * STEP_MS + abs(ahead_ms) + MINUTE_MS
    seen = [bodies(await process.queue.peek_all(100)) for process in both]
    assert seen[0] == seen[1], "one order for every front-end"
    received = [(await both[0].queue.take_one(3_600_000)).body for _ in range(MESSAGES)]
    assert received == seen[0]
    assert sorted(map(int, received)) == list(range(MESSAGES))
    return [int(body) for body in received]


@pytest.mark.parametrize("wrong_ms", [MINUTE_MS, pytest.param(-MINUTE_MS, marks=pytest.mark.extended)])
async def test_clocks_that_follow_cassandras(cassandra_address: CassandraAddress, wrong_ms: int) -> None:
    """A machine's clock is a minute wrong: the process corrects it, and a message is at most half a second from its
    turn."""
    clocks = Clock(), Clock(wall_ns=wall_clock(wrong_ms // 1_000))
    async with bdqs_processes(cassandra_address, 2, *clocks, OrderHint="1") as both:
        ahead_ms = clocks[1].now_ms() - clocks[0].now_ms()
        order = await _order(both, ahead_ms)
        print(f"{wrong_ms} ms wrong, {ahead_ms} ms after the correction: displacement {displacement(order):.2f}")
        assert abs(ahead_ms) <= RIGHT_MS
        assert max(abs(place - number) for place, number in enumerate(order)) <= RIGHT_MS / STEP_MS


@pytest.mark.parametrize(("ahead_ms", "most"), first([(200, 2), (0, 0), (1_000, 10), (MINUTE_MS, MESSAGES / 4)]))
async def test_clocks_that_nobody_corrects(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, most: float
) -> None:
    """The order is still one; the displacement grows with the difference, by one message in two of those that are sent
    meanwhile."""
    monkeypatch.setattr(ClockSkew, "_read", read_own)
    async with bdqs_processes(cassandra_address, 2, OrderHint="1") as both:
        found = displacement(await _order(both, ahead_ms))
        print(f"{ahead_ms} ms apart: displacement {found:.2f}")
        assert found <= most
        assert (found > 0) == (ahead_ms >= 2 * STEP_MS)
