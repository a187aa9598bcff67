"""Processes of the engine `cqs` when Redis fails and returns: messages in flight stay hidden."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import redis
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress as Cluster
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.metrics.catalogue import CACHE_LOOKUPS, QUEUE_DUPLICATE_DELIVERIES, REDIS_OUTAGES, REDIS_UP
from cns_common.metrics.model import Metric
from cqs.engines.cluster import ClusterEngine, open_engine
from cqs.engines.cluster.cache_contract import CachedMessage, LeaseRequest
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.ids import MessageLocation, QueueShard, bucket_name, parse_handle
from cqs.engines.cluster.no_redis.claims import BucketClaims
from cqs.engines.cluster.ownership.owned_queues import PAUSE_MS_MAX
from cqs.engines.cluster.ownership.used_queues import UsedQueues, slice_of
from cqs.engines.cluster.redis import cache as redis_cache
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.unacked import UnackedDeliveries
from cqs.engines.contract import Message, Outcome
from lab.harness.own_redis import OwnRedis
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import HIDE_MS, QueueFixture, bodies, numbered, until

EPOCH = 1_000


class GatedCassandra(Cassandra):
    """A session that a test holds up: as in a stopped process, nothing is sent until it goes on."""

    gate: asyncio.Event

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        await self.gate.wait()
        return await super().run(statement, *values)

    def stop(self) -> None:
        self.gate.clear()

    def go_on(self) -> None:
        self.gate.set()


@asynccontextmanager
async def processes(place: Cluster, *urls: str) -> AsyncIterator[list[tuple[QueueFixture, GatedCassandra]]]:
    """One queue, used by a process for each URL of Redis."""
    clock = Clock()
    async with AsyncExitStack() as stack:
        opened: list[tuple[QueueFixture, GatedCassandra]] = []
        for url in urls:
            cassandra = await GatedCassandra.open(place)
            assert isinstance(cassandra, GatedCassandra)
            cassandra.gate = asyncio.Event()
            cassandra.go_on()
            stack.push_async_callback(cassandra.close)
            engine = await stack.enter_async_context(open_engine(cassandra, url, clock))
            queue = opened[0][0].at(engine) if opened else QueueFixture(engine, clock)
            opened.append((queue, cassandra))
        yield opened


@asynccontextmanager
async def queues(place: Cluster, url: str, n: int) -> AsyncIterator[list[QueueFixture]]:
    """One queue, used by `n` processes."""
    async with processes(place, *[url] * n) as opened:
        yield [queue for queue, _ in opened]


async def receive_soon(queue: QueueFixture, n: int, hide_ms: int = HIDE_MS) -> list[Message]:
    """The next `n` messages, received as a long poll does."""
    arrived: list[Message] = []
    waiter = queue.engine.waiter(queue.q)
    until_ms = queue.clock.wall_ms() + 1000 * PATIENCE_S
    while len(arrived) < n:
        assert queue.clock.wall_ms() < until_ms, f"{len(arrived)} of {n} came"
        queue.now_ms = queue.clock.now_ms()
        arrived += (taken := await queue.take(n - len(arrived), hide_ms))
        if not taken:
            await waiter.wait(0.2)
    waiter.close()
    return arrived


async def recovered(*queues: QueueFixture) -> None:
    """Wait until each process has noticed the loss and uses Redis again."""
    await until(lambda: all(sample(queue.engine, REDIS_OUTAGES) for queue in queues))
    await until_up(*queues)


async def until_up(*queues: QueueFixture, up: bool = True) -> None:
    await until(lambda: all(bool(sample(queue.engine, REDIS_UP)) is up for queue in queues))


async def until_counted(queue: QueueFixture, expected: tuple[int, int, int]) -> None:
    """Redis is updated some time after it returned, and a count is too low while the cache is filled."""

    async def counted() -> bool:
        return await queue.counts() == expected

    await until(counted)


def repeats_counted(*queues: QueueFixture) -> float:
    return sum(sample(queue.engine, QUEUE_DUPLICATE_DELIVERIES) for queue in queues)


def failover_of(queue: QueueFixture) -> CacheFailover:
    """The cache of the queue."""
    assert isinstance(queue.engine, ClusterEngine)
    return queue.engine._servers.router.at(QueueShard(queue.q.id))


def sample(engine: object, metric: Metric) -> float:
    assert isinstance(engine, ClusterEngine)
    return next(sample.value for sample in engine.samples() if sample.name == metric.name)


async def test_two_processes_without_redis_deliver_nothing_twice(cassandra_address: Cluster) -> None:
    async with queues(cassandra_address, "", 2) as (one, two):
        await one.send(*numbered(5, b"a"))
        await two.send(*numbered(5, b"b"))
        held = [*await receive_soon(one, 3), *await receive_soon(two, 3)]
        rest = [*await one.drain(), *await two.drain()]
        assert sorted(bodies(held + rest)) == sorted(numbered(5, b"a") + numbered(5, b"b"))
        assert sum(await one.counts()) == sum(await two.counts()) == 10


async def test_a_send_wakes_a_poll_of_another_process(cassandra_address: Cluster) -> None:
    async with queues(cassandra_address, "", 2) as (one, two):
        waiter = one.engine.waiter(one.q)
        await two.send(b"for whoever asks")
        assert await waiter.wait(PATIENCE_S)
        assert bodies(await one.take()) == [b"for whoever asks"]


async def test_a_process_settles_messages_received_by_another(cassandra_address: Cluster) -> None:
    async with queues(cassandra_address, "", 2) as (one, two):
        await one.send(*numbered(3))
        deleted, longer, shorter = await receive_soon(one, 3, hide_ms=2_000)
        assert await two.delete(deleted) == [Outcome.DONE]
        assert await two.hide(longer, 60_000) is Outcome.DONE
        one.advance(3_000)
        assert bodies(await one.take()) == [shorter.body]
        assert not await two.take()


async def test_a_returned_claim_has_the_messages_in_flight(cassandra_address: Cluster) -> None:
    async with queues(cassandra_address, "", 1) as (one,):
        await one.send(*numbered(4))
        held = await receive_soon(one, 2)
    async with queues(cassandra_address, "", 1) as (other,):
        two = one.at(other.engine)
        assert sorted(bodies(await receive_soon(two, 2))) == sorted(set(numbered(4)) - set(bodies(held)))
        assert await two.counts() == (0, 4, 0)
        assert await two.delete(*held) == [Outcome.DONE, Outcome.DONE]
        assert await two.counts() == (0, 2, 0)


@pytest.mark.extended
async def test_claims_of_a_dead_process_are_taken_over(cassandra_address: Cluster) -> None:
    async with queues(cassandra_address, "", 1) as (queue,):
        await queue.send(*numbered(3))
        cassandra = await Cassandra.open(cassandra_address)
        dead = BucketClaims(cassandra, queue.clock, "deadbeef")
        await dead.heartbeat()
        rows = MessageRows(cassandra, queue.clock, "deadbeef")
        for bucket in await rows.buckets(queue.q.id, ""):
            assert await dead.claim(queue.q.id, bucket, None)
        assert not await queue.take()
        assert sorted(bodies(await receive_soon(queue, 3))) == numbered(3)
        assert not await dead.owns(queue.q.id, 0, await rows.buckets(queue.q.id, ""))
        await cassandra.close()


async def test_messages_in_flight_stay_hidden_when_redis_dies(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(6))
        held = [*await receive_soon(one, 2), *await receive_soon(two, 2)]
        own_redis.kill()
        await one.send(b"meanwhile")
        assert sorted(bodies(await receive_soon(two, 3))) == sorted({*numbered(6), b"meanwhile"} - set(bodies(held)))
        assert not await one.take()
        assert await two.delete(held[0]) == [Outcome.DONE]  # by another process than the one that received it
        own_redis.start()
        await one.send(b"after")
        assert bodies(await receive_soon(one, 1)) == [b"after"]
        await until_up(two)
        assert await two.hide(held[1], 0) is Outcome.DONE  # a handle from before the loss is valid
        assert bodies(await receive_soon(one, 1)) == [held[1].body]
        assert not await two.take()
        assert await one.counts() == (0, 7, 0)
        assert [sample(queue.engine, REDIS_OUTAGES) for queue in (one, two)] == [1, 1]
        assert repeats_counted(one, two) == 0


@pytest.mark.extended
async def test_a_redis_that_was_paused_is_updated(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(4))
        before = await receive_soon(one, 1)
        own_redis.pause()
        await two.send(b"meanwhile")
        during = await receive_soon(two, 2)
        await two.delete(during[0])
        own_redis.resume()
        await one.send(b"after")
        rest = await receive_soon(one, 3)
        assert len({*bodies(before), *bodies(during), *bodies(rest)}) == 6
        assert not await two.take()
        assert await two.delete(during[1]) == [Outcome.DONE]
        await until_counted(one, (0, 4, 0))


@pytest.mark.extended
async def test_a_delete_during_the_return_of_redis(
    cassandra_address: Cluster, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with queues(cassandra_address, own_redis.url, 1) as (queue,):
        await queue.send(*numbered(2))
        own_redis.pause()
        held, kept = await receive_soon(queue, 2)
        delete_rows = MessageRows.delete

        async def delete_late(rows: MessageRows, queue_id: str, locations: Sequence[MessageLocation]) -> None:
            own_redis.resume()
            await until_up(queue)
            await until_counted(queue, (1, 1, 0))
            await delete_rows(rows, queue_id, locations)

        monkeypatch.setattr(MessageRows, "delete", delete_late)
        assert await queue.delete(held) == [Outcome.DONE]
        await until_counted(queue, (0, 1, 0))
        monkeypatch.undo()
        assert await queue.delete(kept) == [Outcome.DONE]
        await until_counted(queue, (0, 0, 0))


async def test_a_message_that_is_being_deleted_is_not_received(
    cassandra_address: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are read again before the delete reaches Cassandra."""
    async with queues(cassandra_address, "", 1) as (queue,):
        await queue.send(b"x")
        held = await receive_soon(queue, 1)
        delete_rows = MessageRows.delete

        async def delete_late(rows: MessageRows, queue_id: str, locations: Sequence[MessageLocation]) -> None:
            await failover_of(queue)._fallback._reader.read_queue(QueueShard(queue_id), 1)
            assert not await queue.take()
            await delete_rows(rows, queue_id, locations)

        monkeypatch.setattr(MessageRows, "delete", delete_late)
        assert await queue.delete(*held) == [Outcome.DONE]


async def test_a_repeated_delivery_is_counted(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(b"one")
        first = await receive_soon(one, 1)
        failover_of(one)._unacked.forget(QueueShard(one.q.id), [parse_handle(first[0].handle).location])  # type: ignore[union-attr]  # as beyond UNACKED_MAX
        with redis.Redis(port=own_redis.port) as client:
            client.flushall()
        await recovered(one, two)
        second = await receive_soon(two, 1)
        assert bodies(first) == bodies(second)
        assert await one.delete(*first) == [Outcome.DONE]
        assert await two.delete(*second) == [Outcome.GONE]
        assert sample(one.engine, QUEUE_DUPLICATE_DELIVERIES) == 1


async def test_receives_that_redis_did_not_answer_are_counted(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    async with queues(cassandra_address, own_redis.url, 1) as (one,):
        await one.send(*numbered(4))
        await receive_soon(one, 2)
        hits, misses = lookups(one.engine, "hit"), lookups(one.engine, "miss")
        assert hits > 0
        own_redis.kill()
        await receive_soon(one, 2)
        assert lookups(one.engine, "miss") > misses
        assert lookups(one.engine, "hit") == hits


def lookups(engine: object, result: str) -> float:
    assert isinstance(engine, ClusterEngine)
    known = [one for one in engine.samples() if one.name == CACHE_LOOKUPS.name]
    return sum(one.value for one in known if ("result", result) in one.labels)


@pytest.mark.parametrize("redis_is_away", [False, True])
async def test_a_handle_from_before_a_cache_loss(
    cassandra_address: Cluster, own_redis: OwnRedis, redis_is_away: bool
) -> None:
    """The message was delivered again meanwhile. Tenants' handles are still valid, fenced ones are not."""
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(2))
        older = await receive_soon(one, 2, hide_ms=1)
        if redis_is_away:
            own_redis.kill()
        else:
            with redis.Redis(port=own_redis.port) as client:
                client.flushall()
        one.advance(1)
        two.now_ms = one.now_ms
        again = await receive_soon(two, 2)
        strict = older[0]
        assert await two.hide(strict, 0) is Outcome.STALE
        two.q = replace(two.q, older_handles=True)
        assert await two.hide(older[0], 0) is Outcome.DONE
        assert bodies(await receive_soon(two, 1)) == [older[0].body]
        assert await two.delete(*older) == [Outcome.DONE] * 2
        assert await two.delete(*again) == [Outcome.GONE] * 2
        await until_counted(two, (0, 0, 0))


@pytest.mark.extended
async def test_an_unfinished_delete_of_a_dead_process(
    cassandra_address: Cluster, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is deleted by the next delete of the message, or by the queue's owner."""
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(2))
        again, left = await receive_soon(one, 2)
        cassandra = await Cassandra.open(cassandra_address)
        rows = MessageRows(cassandra, one.clock, "deadbeef")

        async def rows_left() -> int:
            buckets = await rows.buckets(one.q.id, "")
            return len([row for bucket in buckets for row in await rows.page(one.q.id, bucket, -1, 10)])

        failover = failover_of(one)  # between the delete in Redis and that of the row
        keys = [key for message in (again, left) if (key := parse_handle(message.handle))]
        await failover.ask(lambda cache: cache.begin_delete(QueueShard(one.q.id), keys, one.now_ms))
        assert await rows_left() == 2
        assert await two.delete(again) == [Outcome.GONE]
        assert await rows_left() == 1
        monkeypatch.setattr(redis_cache, "UNFINISHED_DELETE_MS", -1)
        await UsedQueues(cassandra).add(two.q, "deadbeef.0")
        async with asyncio.timeout(PATIENCE_S):
            while await rows_left():
                for process in (one, two):  # one of the two is the queue's owner
                    work = process.engine.work  # type: ignore[attr-defined]  # of a ClusterEngine
                    work._owned.schedule_read([slice_of(two.q.id)])
                    await work.round()
        await cassandra.close()


async def test_old_empty_buckets_are_removed(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    async with queues(cassandra_address, own_redis.url, 1) as (queue,):
        await queue.send(b"deleted", b"kept")
        cassandra = await Cassandra.open(cassandra_address)
        rows = MessageRows(cassandra, queue.clock, "deadbeef")
        first = await rows.buckets(queue.q.id, "")
        deleted, kept = await receive_soon(queue, 2, hide_ms=1)
        await queue.delete(deleted)
        queue.advance(2 * 3_600_000)
        await queue.send(b"new")

        async def sealed_by_its_writer() -> bool:
            return (await rows.listed_buckets(queue.q.id, ""))[0].sealed

        await until(sealed_by_its_writer)
        for _ in range(3):
            queue.advance(PAUSE_MS_MAX)
            await queue.engine.maintain(100, queue.now_ms)
        assert set(first) <= set(await rows.buckets(queue.q.id, ""))
        await queue.delete(
            next(message for message in await receive_soon(queue, 2, 12 * 3_600_000) if message.body == kept.body)
        )
        for _ in range(3):
            queue.advance(PAUSE_MS_MAX)
            await queue.engine.maintain(100, queue.now_ms)
        assert not set(first) & set(await rows.buckets(queue.q.id, ""))
        assert await queue.counts() == (0, 1, 0)
        await cassandra.close()


@pytest.mark.extended
async def test_a_full_redis_counts_as_unavailable(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """Redis answers but accepts no writes."""
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(b"before")
        with redis.Redis(port=own_redis.port) as client:
            client.config_set("maxmemory", 1)
            await two.send(b"while it is full")
            assert sorted(bodies(await receive_soon(one, 2))) == [b"before", b"while it is full"]
            client.config_set("maxmemory", 0)
        await two.send(b"after")
        assert bodies(await receive_soon(one, 1)) == [b"after"]
        assert not await two.take()


async def test_a_message_returned_without_redis_is_visible(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """The row has a later time, because the message was in flight when Redis was lost."""
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(b"one")
        (held,) = await receive_soon(one, 1, hide_ms=1_800_000)
        own_redis.kill()
        await two.send(b"two")
        assert bodies(await receive_soon(two, 1)) == [b"two"]
        assert await two.hide(held, 0) is Outcome.DONE
        assert bodies(await receive_soon(two, 1)) == [b"one"]


@pytest.mark.extended
async def test_a_purge_while_redis_does_not_answer(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """Redis returns with messages that were purged."""
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(5))
        own_redis.pause()
        await one.purge()
        await one.send(b"after")
        own_redis.resume()
        await until_up(one, two)
        await one.send(b"later")
        assert sorted(bodies(await receive_soon(one, 2))) == [b"after", b"later"]
        assert sum(await one.counts()) == 2


async def test_a_failed_delete_during_a_fill(own_redis: OwnRedis) -> None:
    """Messages deleted during a fill return to the cache if their delete fails."""
    clock, shard = Clock(), QueueShard("q")
    cache = redis_cache.RedisCache(own_redis.url, clock, UnackedDeliveries())
    cache.trust(EPOCH, await cache.ping())
    await cache.register(EPOCH, 0)
    now_ms = clock.now_ms()
    item = CachedMessage(MessageLocation(bucket_name(0, now_ms, "deadbeef", 0), 1), now_ms)
    await cache.begin_epoch(shard, 0, "filler")
    assert await cache.fill_page(shard, "filler", [item])
    wish = LeaseRequest(now_ms, 1, now_ms, 0, require_filled=False)
    taken = await cache.lease(shard, wish)
    assert taken
    assert await cache.begin_delete(shard, [taken.leases[0].key], now_ms) == [Outcome.DONE]
    assert await cache.add_missing(shard, [item], now_ms) == 0
    await cache.undo_delete(shard, [item], now_ms)
    again = await cache.lease(shard, wish)
    assert again
    assert [lease.key.location for lease in again.leases] == [item.location]
    await cache.close()
