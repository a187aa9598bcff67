"""The engine on Cassandra and Redis: statements per operation, and behaviour when Redis loses data, fails and
returns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest
import redis

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.cluster.lease import LeaseTimes
from cns_common.durations import HOUR_MS
from cns_common.errors import StoreUnavailable
from cqs.engines.cassandra import schema as shared_schema
from cqs.engines.cluster import ClusterEngine, open_engine, views
from cqs.engines.cluster.ids import MessageLocation
from cqs.engines.cluster.rows import MessageRow, MessageRows
from cqs.engines.contract import Change, Outcome
from cqs.engines.embedded import maintenance
from lab.harness.keyspace import asked
from lab.harness.own_redis import OwnRedis
from tests.conformance.support import HIDE_MS, QueueFixture, bodies, numbered
from tests.integration.cqs.engines.recorded_statements import kinds, record, recording

MESSAGES = "cqs_messages"


@asynccontextmanager
async def open_with_session(
    place: CassandraAddress, url: str, clock: Clock
) -> AsyncIterator[tuple[ClusterEngine, Cassandra]]:
    cassandra = await Cassandra.open(place)
    try:
        async with open_engine(cassandra, url, clock) as engine:
            yield engine, cassandra
    finally:
        await cassandra.close()


async def test_statements_of_each_operation(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "TIMES", LeaseTimes(HOUR_MS, HOUR_MS))  # its statements are not the operations'
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, cassandra):
        queue = QueueFixture(engine, clock)
        await queue.send(*numbered(30))  # the bucket is open, and the cache is filled
        await queue.take(1)

        async def cost(work: Awaitable[object]) -> int:
            before = asked(cassandra)
            await work
            return asked(cassandra) - before

        assert await cost(queue.send(b"one")) == 1
        assert await cost(queue.send(*numbered(10))) == 1
        assert await cost(queue.receive(10)) == 1
        (message,) = await queue.take(1)
        assert await cost(queue.hide(message, HIDE_MS)) == 0
        assert await cost(queue.delete(message)) == 1
        queue.set(max_receives=3)
        assert await cost(queue.receive(10)) == 2  # deliveries are counted in the rows


async def test_kinds_of_statements_of_each_operation(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is written once and deleted once. What is received and hidden meanwhile is in Redis: rows are read for
    their bodies, and only a new body and a count of deliveries for a redrive policy change them."""
    record(monkeypatch)
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, _):
        queue = QueueFixture(engine, clock)
        await queue.send(*numbered(30))
        await queue.take(1)
        with recording() as sent:
            await queue.send(*numbered(3))
        with recording() as received:
            messages = await queue.take(3)
        with recording() as hidden:
            for message in messages:
                await queue.hide(message, 0)
            messages = await queue.take(3)
        with recording() as counted:
            await queue.counts()
        with recording() as changed:
            await engine.change(queue.q, [Change(messages[0].handle, None, b"new body")], queue.now_ms)
        with recording() as deleted:
            assert await queue.delete(*messages) == [Outcome.DONE] * 3
        queue.set(max_receives=3)
        with recording() as received_with_policy:
            await queue.take(1)
    assert kinds(sent) == [("INSERT", MESSAGES)] * 3  # one batch
    assert {kind for kind, _ in kinds(received) + kinds(hidden) + kinds(counted)} == {"SELECT"}
    assert kinds(changed) == [("SELECT", MESSAGES), ("UPDATE", MESSAGES)]  # the date of the body before
    assert kinds(deleted) == [("DELETE", MESSAGES)] * 3  # one batch
    assert Counter(kinds(received_with_policy)) == {("SELECT", MESSAGES): 1, ("UPDATE", MESSAGES): 1}


async def test_a_lost_cache_loses_no_message(cassandra_address: CassandraAddress, own_redis: OwnRedis) -> None:
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, _):
        queue = QueueFixture(engine, clock)
        await queue.send(*numbered(20))
        held, *others = await queue.take(5)
        await queue.delete(others[0])
        with redis.Redis(port=own_redis.port) as client:
            client.flushall()
        assert (await queue.engine.delete(queue.q, [held.handle], queue.now_ms)) == [Outcome.DONE]
        unseen = set(numbered(20)) - {held.body, *bodies(others)}
        assert {message.body for message in await queue.drain()} == unseen
        queue.advance(HIDE_MS)
        assert {message.body for message in await queue.drain()} == unseen | set(bodies(others[1:]))


async def test_concurrent_first_sends_open_one_bucket(cassandra_address: CassandraAddress, own_redis: OwnRedis) -> None:
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, cassandra):
        queue = QueueFixture(engine, clock)
        await asyncio.gather(*[queue.send(body) for body in numbered(16)])
        assert len(await MessageRows(cassandra, clock, "reader").listed_buckets(queue.q.id, "")) == 1


async def test_a_dropped_queue_is_remembered_for_two_days(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cassandra ends it by its own clock, here after four seconds."""
    assert maintenance.REMEMBER_DROPPED_MS == 1_000 * shared_schema.REMEMBER_DROPPED_S
    for name in ("DROP_KNOWN", "DROP_UNKNOWN"):
        before, after = getattr(shared_schema, name).cql.split(f"USING TTL {shared_schema.REMEMBER_DROPPED_S}")
        monkeypatch.setattr(shared_schema, name, Statement(f"{before}USING TTL 4{after}", idempotent=False))
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, cassandra):
        dropped = []
        for purges in (0, 1, 2):
            queue = QueueFixture(engine, clock)
            for _ in range(purges):
                await queue.purge()
            await engine.drop(queue.q, queue.now_ms)
            assert await engine._rows.raise_generation(queue.q.id) is None
            dropped.append(queue.q.id)
        for queue_id in dropped:
            while await cassandra.run(shared_schema.FIND_QUEUE, queue_id):
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("with_redis", [True, False])
async def test_a_failed_read_costs_no_delivery(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch, with_redis: bool
) -> None:
    """Three refused receives do not spend a message that may be received three times."""
    clock = Clock()

    async def fail(*_: object) -> dict[MessageLocation, MessageRow]:
        raise StoreUnavailable("no replica answers")

    async with open_with_session(cassandra_address, own_redis.url if with_redis else "", clock) as (engine, cassandra):
        queue = QueueFixture(engine, clock, max_receives=3)
        await queue.send(*numbered(2))
        monkeypatch.setattr(MessageRows, "read", fail)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await queue.receive()
        monkeypatch.undo()
        assert await queue.counts() == (2, 0, 0)
        rows = MessageRows(cassandra, clock, "deadbeef")
        (bucket,) = await rows.buckets(queue.q.id, "")
        assert [row.deliveries for row in await rows.page(queue.q.id, bucket, -1, 10)] == [0, 0]
        received = await queue.receive()
        assert [message.deliveries for message in received.messages] == [1, 1]
        assert not received.spent
        monkeypatch.setattr(MessageRows, "read", fail)
        queue.advance(HIDE_MS)
        with pytest.raises(StoreUnavailable):
            await queue.receive()
        monkeypatch.undo()
        assert await queue.delete(*received.messages) == [Outcome.DONE] * 2  # its handle is still the newest
        assert await queue.counts() == (0, 0, 0)
