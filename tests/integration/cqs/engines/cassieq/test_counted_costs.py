"""The counted costs of `cassieq`: conditional writes for numbers under contention, statements after many messages, and
how far messages are received from their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.cassieq.monotons import Monotons
from lab.harness.keyspace import emptied
from tests.conformance.support import DONE, QueueFixture, displacement, numbered
from tests.integration.cqs.engines.cassieq.conftest import Processes, engine_of
from tests.integration.cqs.engines.recorded_statements import record, recording, tombstones

CONTENTION = (1, 2, 4, 8, 16)
SENDS = 10
"""Messages of each sender."""
BATCH = 10
MANY = 60
REPAIR_MS = 30_000


async def _writes_per_number(address: CassandraAddress, senders: int, range_max: int) -> float:
    """The conditional writes per number when `processes` send to one queue at once, each with `SENDS` senders that
    wait."""
    async with emptied(address) as cassandra:
        processes = [Monotons(cassandra) for _ in range(senders)]
        key = hex_id()
        taken = await asyncio.gather(*[one.take(key, 1, range_max, 20) for one in processes for _ in range(SENDS)])
        numbers = sorted(number for some in taken for number in some)
        assert len(set(numbers)) == senders * SENDS, "no number is given twice"
        assert numbers == list(range(senders * SENDS)), "and none is left out"
        assert sum(one.writes - one.lost_races for one in processes) <= senders * SENDS
        return sum(one.writes for one in processes) / len(numbers)


@pytest.mark.extended
async def test_conditional_writes_of_a_send_by_contention(cassandra_address: CassandraAddress) -> None:
    """One number for each write, as in the original: races are lost, more with each process. Shared writes: fewer than
    one for each message, even with sixteen processes."""
    curve = {
        senders: (
            await _writes_per_number(cassandra_address, senders, 1),
            await _writes_per_number(cassandra_address, senders, 1_000),
        )
        for senders in CONTENTION
    }
    for senders, (single, shared) in curve.items():
        print(f"{senders:>2} processes: {single:.2f} conditional writes for a number, shared {shared:.2f}")
    assert curve[1] == (1.0, 1 / SENDS)
    assert all(shared < 1 and shared < single for single, shared in curve.values())
    assert curve[16][0] > curve[1][0], "the processes hinder one another"


async def _cycle(queue: QueueFixture) -> None:
    await queue.send(*numbered(BATCH))
    messages = await queue.take(BATCH, 3_600_000)
    assert len(messages) == BATCH
    assert await queue.delete(*messages) == [DONE] * BATCH
    queue.advance(REPAIR_MS)
    await engine_of(queue).maintain_queues(1_000, queue.now_ms)


async def test_a_queue_costs_the_same_after_ten_times_as_many_messages(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No read passes over deleted rows, so neither statements nor tombstones grow."""
    sessions = record(monkeypatch)
    queue = await processes.start(Clock(), bucket_size=BATCH)
    costs = []
    for cycles in (MANY // BATCH, MANY - MANY // BATCH):
        for _ in range(cycles):
            await _cycle(queue)
        with recording() as sent:
            await _cycle(queue)
        costs.append((len(sent), await tombstones(sessions[-1], sent)))
    print(f"(statements, tombstones) of ten messages after {MANY} and {10 * MANY}: {costs}")
    assert costs[1][0] == costs[0][0]
    assert costs[1][1] <= costs[0][1] + BATCH


async def _displacement_of(queues: Sequence[QueueFixture], n: int) -> float:
    """Messages are sent and received by the processes in turn."""
    for number in range(n):
        await queues[number % len(queues)].send(b"%d" % number)
    received = [int((await queues[number % len(queues)].take_one(3_600_000)).body) for number in range(n)]
    assert sorted(received) == list(range(n))
    return displacement(received)


@pytest.mark.parametrize("size", [5, pytest.param(20, marks=pytest.mark.extended)])
async def test_how_far_messages_come_from_their_turn(processes: Processes, size: int) -> None:
    """With `StrictFifo`, the default, none does, whichever process sends and receives; without, within its bucket."""
    found = {}
    for strict in ("true", "false"):
        one = await processes.start(Clock(), bucket_size=size)
        one.q = replace(one.q, options=(*one.q.options, ("StrictFifo", strict)))
        two = await processes.start(one.clock, like=one)
        two.now_ms = one.now_ms
        found[strict] = await _displacement_of((one, two), 4 * size)
    print(f"displacement with buckets of {size}: {found}")
    assert found["true"] == 0
    assert 0 < found["false"] < size
