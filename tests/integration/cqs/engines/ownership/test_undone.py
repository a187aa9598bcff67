"""Messages whose sender died, was cancelled or met an error after it wrote their rows: they arrive all the same."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.durations import DAY_MS
from cqs.engines.cluster import ROUND_INTERVAL_S
from cqs.engines.cluster.cache_contract import CachedMessage
from cqs.engines.cluster.ownership.used_queues import UsedQueues
from cqs.engines.cluster.reconciler import COMPARED_AFTER_MS
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.contract import Entry, QueueRef
from lab.harness.keyspace import emptied
from lab.harness.own_redis import OwnRedis
from tests.conformance.support import bodies
from tests.integration.cqs.engines.ownership.support import Process, fixture_of, opened, run_rounds, settle
from tests.machine_clocks import MachineClocks

DEAD = "deadbeef"
SECOND_NS = 1_000_000_000


async def write_and_die(cassandra: Cassandra, q: QueueRef, *texts: bytes, ahead_s: int = 0) -> None:
    """Write the row but not Redis, as a process does that is killed in between. Its clock is so many seconds ahead."""
    clock = MachineClocks(time.time_ns() + ahead_s * SECOND_NS).clock()
    await UsedQueues(cassandra).add(q, f"{DEAD}.0")
    rows = MessageRows(cassandra, clock, DEAD)
    now_ms = clock.now_ms()
    await rows.insert(q.id, 0, [Entry(str(uuid.uuid4()), text, now_ms, 0) for text in texts], now_ms)


@pytest.mark.parametrize("ahead_s", [-60, 0, 60])
async def test_a_message_of_a_dead_process_arrives(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, ahead_s: int
) -> None:
    """Whatever its clock showed; and its last messages only are compared."""
    async with opened(cassandra_address, own_redis.url, 2) as (cassandra, running):
        queue = fixture_of(running[0])
        queue.now_ms = running[0].engine._clock.now_ms()
        assert not await queue.take()  # the cache is filled, and does not have what follows
        await write_and_die(cassandra, queue.q, b"one", b"two", ahead_s=ahead_s)
        assert not await queue.take()
        await settle(running)
        assert sorted(bodies(await queue.take())) == [b"one", b"two"]
        assert sum(one.reconciler.repairs for one in running) == 2
        assert [
            use.node for number in range(64) for use in await running[0].used.read(number) if use.q.id == queue.q.id
        ]
        assert f"{DEAD}.0" not in {use.node for number in range(64) for use in await running[0].used.read(number)}


async def test_the_first_process_after_all_died_finds_their_messages(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    async with emptied(cassandra_address) as cassandra:
        async with opened(cassandra_address, own_redis.url, 1, beside=cassandra) as (_, [one]):
            queue = fixture_of(one)
            assert not await queue.take()
            await write_and_die(cassandra, queue.q, b"left")
        async with opened(cassandra_address, own_redis.url, 1, beside=cassandra) as (_, [later]):
            await settle([later])
            assert bodies(await fixture_of(later, queue.q).take()) == [b"left"]


async def test_a_queue_with_messages_keeps_its_owner_without_users(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    """So that its messages expire in time."""
    brief = QueueRef(f"left-{uuid.uuid4()}", False, 60_000)
    async with opened(cassandra_address, own_redis.url, 1) as (cassandra, [one]):
        await write_and_die(cassandra, brief, b"old")
        await settle([one])
        assert one.owned_of([brief])
        await run_rounds([one], int(90 / ROUND_INTERVAL_S))
        buckets = await one.rows.buckets(brief.id, "")
        assert [row for bucket in buckets for row in await one.rows.page(brief.id, bucket, -1, 10)] == []


async def cancel_before_redis(process: Process, monkeypatch: pytest.MonkeyPatch, q: QueueRef) -> None:
    reached = asyncio.Event()

    async def hang(_: RedisCache, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        reached.set()
        return await asyncio.Event().wait() and 0

    with monkeypatch.context() as patched:
        patched.setattr(RedisCache, "add", hang)
        send = asyncio.create_task(fixture_of(process, q).send(b"written"))
        await reached.wait()
        send.cancel()
        with suppress(asyncio.CancelledError):
            await send


async def test_a_message_of_a_cancelled_send_arrives(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(cassandra_address, own_redis.url, 1) as (_, [one]):
        queue = fixture_of(one)
        assert not await queue.take()
        await cancel_before_redis(one, monkeypatch, queue.q)
        assert not await queue.take()
        one.clocks.run(COMPARED_AFTER_MS[0] * 1_000_000)
        await one.round()
        assert bodies(await queue.take()) == [b"written"]
        assert one.reconciler.repairs == 1
        one.clocks.run(COMPARED_AFTER_MS[-1] * 1_000_000)
        for _ in COMPARED_AFTER_MS:
            await one.round()
        assert one.reconciler.lag_ms == 0


async def test_a_process_in_doubt_leaves_the_comparison_to_others(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    q = QueueRef(f"left-{uuid.uuid4()}", False, DAY_MS)
    async with opened(cassandra_address, own_redis.url, 1) as (cassandra, [one]):
        assert not await fixture_of(one, q).take()
        async with opened(cassandra_address, own_redis.url, 1, beside=cassandra) as (_, [other]):
            await cancel_before_redis(other, monkeypatch, q)
        # its clock has stood still since before the send, and began before the other one's
        one.clocks.run(other.clocks.wall_ns - one.clocks.wall_ns + SECOND_NS)
        await settle([one])
        assert bodies(await fixture_of(one, q).take()) == [b"written"]
