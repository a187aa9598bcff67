"""K: order against lost races. A larger K puts messages further from their turn; `auto` follows lost races."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cqs.engines.bdqs import known_queues, picker
from cqs.engines.bdqs.order_hint import CALM_RECEIVES
from cqs.engines.contract import QueueRef
from tests.conformance.support import QueueFixture, bodies, displacement, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, bdqs_processes, in_order

MESSAGES = 90


def _hint(q: QueueRef, k: str) -> QueueRef:
    return replace(q, options=(("OrderHint", k),))


async def _displacement(queue: QueueFixture, k: str) -> float:
    queue.q = _hint(replace(queue.q, id=f"{queue.q.id}-{k}"), k)
    await queue.send(*numbered(MESSAGES))
    received = [int(message.body) for _ in range(MESSAGES) for message in await queue.take(1)]
    assert sorted(received) == list(range(MESSAGES))
    return displacement(received)


@pytest.mark.extended
async def test_displacement_grows_with_k(cassandra_address: CassandraAddress) -> None:
    """K = 1 alone is strict; K = 3 is an order of magnitude nearer to order than no order."""
    async with bdqs_processes(cassandra_address, 1) as (process,):
        strict, small, large, none = [await _displacement(process.queue, k) for k in ("1", "3", "20", "inf")]
    assert strict == 0
    assert 0 < small < large < none
    assert none >= 10 * small


async def test_k_is_changed_while_the_queue_is_used(cassandra_address: CassandraAddress) -> None:
    async with bdqs_processes(cassandra_address, 1, OrderHint="inf") as (process,):
        queue = process.queue
        await queue.send(*numbered(MESSAGES))
        assert bodies([message for _ in range(12) for message in await queue.take(1)]) != numbered(12)
        queue.q = _hint(queue.q, "1")
        left = bodies(await queue.drain())
        assert left == sorted(left)


async def test_automatic_k_follows_lost_races(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, interval in ((picker, "LIST_INTERVAL_MS"), (known_queues, "AGE_MS_MAX")):
        monkeypatch.setattr(module, interval, 3_600_000)  # no background statements: both processes send the same ones
    async with bdqs_processes(cassandra_address, 2) as both:
        for process in both:
            assert not await process.queue.take(1)
        await both[0].queue.send(*numbered(CALM_RECEIVES * 2 + 4))
        assert [_automatic_k(process) for process in both] == [1, 1]
        held = [process.hold() for process in both]
        tasks = [asyncio.ensure_future(process.queue.take(1)) for process in both]
        await in_order([0, 1] * 10, held, tasks)
        assert max(_automatic_k(process) for process in both) == 2
        for process in both:
            process.free()
        (busy,) = [process for process in both if _automatic_k(process) == 2]
        for _ in range(CALM_RECEIVES):
            await busy.queue.take(1)
        assert _automatic_k(busy) == 1


def _automatic_k(process: Process) -> int:
    queue = process.engine._known_queues.find(process.queue.q.id)
    return queue.automatic_k.k if queue else 1
