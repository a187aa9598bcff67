"""Fills of the cache: deep queues give messages while they are filled, and do not keep other queues waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.cluster import ClusterEngine, known_queues, open_engine, queue_contents, refill, schema
from cqs.engines.cluster.cache_contract import FILLED_BY_ANOTHER, CacheUnavailable
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.redis import cache as redis_cache
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.rows import MessageRows, RowHeader
from lab.harness.own_redis import OwnRedis
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, bodies, numbered
from tests.integration.cqs.engines.test_cluster_engine import open_with_session
from tests.late_calls import tolerate_stalls

PAGE = 10
PAGES = 6
SHORT_S = 0.02


class PageReads:
    """The pages that fills read: in which order, how many at once, and up to which one they may go on."""

    def __init__(self) -> None:
        self.clear()
        self.seen = asyncio.Condition()
        self._at_once = 0
        self._allowed: dict[str, int] = {}
        self._opened = asyncio.Event()

    def clear(self) -> None:
        self.order: list[str] = []
        self.most_at_once = 0

    def stop_after(self, queue: QueueFixture, pages: int) -> None:
        self._allowed[queue.q.id] = pages

    def go_on(self) -> None:
        self._opened.set()

    async def begin(self, queue_id: str) -> None:
        self.order.append(queue_id)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        if self.order.count(queue_id) > self._allowed.get(queue_id, PAGES + 1):
            await self._opened.wait()
        async with self.seen:
            self.seen.notify_all()

    def end(self) -> None:
        self._at_once -= 1


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> PageReads:
    """Small pages, one in a step. Whoever waits for a fill waits for as long as the test lasts."""
    noted = PageReads()
    headers = MessageRows.headers

    async def noted_headers(
        rows: MessageRows, queue_id: str, bucket: str, after_seq: int
    ) -> tuple[list[RowHeader], int | None]:
        await noted.begin(queue_id)
        try:
            return await headers(rows, queue_id, bucket, after_seq)
        finally:
            noted.end()

    monkeypatch.setattr(schema, "HEADERS", Statement(schema.HEADERS.cql.replace("LIMIT 1000", f"LIMIT {PAGE}")))
    monkeypatch.setattr(schema, "PAGE_ROWS", PAGE)
    monkeypatch.setattr(refill, "FILL_STEP_PAGES", 1)
    tolerate_stalls(monkeypatch)
    monkeypatch.setattr(MessageRows, "headers", noted_headers)
    return noted


@asynccontextmanager
async def empty_cache(
    place: CassandraAddress, redis: OwnRedis, reads: PageReads, messages: list[int]
) -> AsyncIterator[tuple[ClusterEngine, list[QueueFixture]]]:
    """A process that finds nothing in Redis, and queues with so many messages."""
    clock = Clock()
    cassandra = await Cassandra.open(place)
    async with open_engine(cassandra, redis.url, clock, "before") as engine:
        queues = [QueueFixture(engine, clock) for _ in messages]
        for queue, n in zip(queues, messages, strict=True):
            for at in range(0, n, PAGE):
                await queue.send(*numbered(min(PAGE, n - at), b"%d " % at))
    reads.clear()
    async with open_engine(cassandra, redis.url, clock, "after") as engine:
        yield engine, [queue.at(engine) for queue in queues]
    await cassandra.close()


async def test_a_deep_queue_gives_messages_before_it_is_filled(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, reads: PageReads
) -> None:
    async with empty_cache(cassandra_address, own_redis, reads, [PAGE * PAGES, 1]) as (_, [deep, other]):
        reads.stop_after(deep, 1)
        async with asyncio.timeout(PATIENCE_S):
            first = await deep.take(PAGE)
            assert bodies(first) == numbered(PAGE, b"0 ")
            assert len(await other.take()) == 1
        assert reads.order.count(deep.q.id) == 2  # the second one has not ended
        reads.go_on()
        rest = await deep.drain(3_600_000)
        assert len({*bodies(first), *bodies(rest)}) == len(first) + len(rest) == PAGE * PAGES


async def test_one_of_two_processes_fills_what_both_begin_to_fill(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, reads: PageReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find nothing in Redis at the same moment, and one sends meanwhile: each message is delivered once."""
    monkeypatch.setattr(
        redis_cache, "FILLER_TTL_MS", int(PATIENCE_S * 1000)
    )  # the first is not dead, however long it takes
    both, answers, begun = asyncio.Barrier(2), dict[RedisCache, int](), asyncio.Event()
    begin_epoch = RedisCache.begin_epoch

    async def begin_at_once(cache: RedisCache, shard: QueueShard, generation: int, filler: str) -> int:
        if cache in answers:
            return await begin_epoch(cache, shard, generation, filler)
        answers[cache] = 0
        await both.wait()
        answers[cache] = await begin_epoch(cache, shard, generation, filler)
        if FILLED_BY_ANOTHER in answers.values():
            begun.set()
        return answers[cache]

    clock = Clock()
    cassandra = await Cassandra.open(cassandra_address)
    async with (
        empty_cache(cassandra_address, own_redis, reads, [PAGE * PAGES]) as (_, [one]),
        open_engine(cassandra, own_redis.url, clock, "after") as engine,
    ):
        two = one.at(engine)
        reads.stop_after(one, 0)
        monkeypatch.setattr(RedisCache, "begin_epoch", begin_at_once)
        async with asyncio.timeout(PATIENCE_S):
            receives = [asyncio.create_task(queue.take(PAGE)) for queue in (one, two)]
            await begun.wait()
            await two.send(b"sent meanwhile")
            reads.go_on()
            taken = [message for messages in await asyncio.gather(*receives) for message in messages]
        taken += [*await one.drain(3_600_000), *await two.drain(3_600_000)]
        assert sorted(answers.values()) == [FILLED_BY_ANOTHER, 0], "one fills it, in the queue's generation"
        assert len(reads.order) == PAGES + 1, "no page is read by both"
        sent = [b"sent meanwhile", *[body for at in range(PAGES) for body in numbered(PAGE, b"%d " % (at * PAGE))]]
        assert sorted(bodies(taken)) == sorted(sent)
    await cassandra.close()


async def test_a_deep_queue_does_not_keep_others_from_being_filled(
    cassandra_address: CassandraAddress,
    own_redis: OwnRedis,
    reads: PageReads,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if only one step runs at once."""
    monkeypatch.setattr(refill, "FILL_STEPS_AT_ONCE", 1)
    async with empty_cache(cassandra_address, own_redis, reads, [PAGE * PAGES, 1]) as (engine, [deep, other]):
        reads.stop_after(deep, 1)
        deep_shard, other_shard = QueueShard(deep.q.id), QueueShard(other.q.id)
        known = engine._known_queues
        fills = [known.start_fill(await known.get(deep.q), deep_shard).task]
        async with asyncio.timeout(PATIENCE_S), reads.seen:
            await reads.seen.wait_for(lambda: bool(reads.order))
        fills.append(known.start_fill(await known.get(other.q), other_shard).task)
        while not known._fill_slots.in_step._waiters:
            await asyncio.sleep(0)  # until the other fill waits for its step
        reads.go_on()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*fills)
        assert reads.order.index(other.q.id) < len(reads.order) - 1


@pytest.mark.parametrize(("fills_max", "steps_max"), [(64, 3), (2, 8)])
async def test_fills_of_many_queues_are_bounded(
    cassandra_address: CassandraAddress,
    own_redis: OwnRedis,
    reads: PageReads,
    monkeypatch: pytest.MonkeyPatch,
    fills_max: int,
    steps_max: int,
) -> None:
    """As after a loss of Redis, when every queue is received from."""
    monkeypatch.setattr(refill, "FILLS_MAX", fills_max)
    monkeypatch.setattr(refill, "FILL_STEPS_AT_ONCE", steps_max)
    begun: set[QueueShard] = set()
    most_begun = 0
    begin_epoch, end_fill = RedisCache.begin_epoch, RedisCache.end_fill

    async def noted_begin(cache: RedisCache, shard: QueueShard, generation: int, filler: str) -> int:
        nonlocal most_begun
        begun.add(shard)
        most_begun = max(most_begun, len(begun))
        return await begin_epoch(cache, shard, generation, filler)

    async def noted_end(cache: RedisCache, shard: QueueShard, filler: str) -> None:
        await end_fill(cache, shard, filler)
        begun.discard(shard)

    monkeypatch.setattr(RedisCache, "begin_epoch", noted_begin)
    monkeypatch.setattr(RedisCache, "end_fill", noted_end)
    async with empty_cache(cassandra_address, own_redis, reads, [1] * 20) as (_, queues):
        begun.clear()
        most_begun = 0
        taken = await asyncio.gather(*[queue.take() for queue in queues])
        assert [len(messages) for messages in taken] == [1] * len(queues)
    assert 0 < reads.most_at_once <= steps_max
    assert 1 < most_begun <= fills_max


async def lose_all(
    engine: ClusterEngine, own_redis: OwnRedis, lost: asyncio.Event | None = None
) -> tuple[RedisCache, asyncio.Semaphore]:
    """Empty Redis, set `lost`, and wait until it is in use again. Fills wait until the semaphore is released."""
    (failover,) = engine._servers.router.failovers()
    waiting = engine._known_queues._fill_slots.begun = asyncio.Semaphore(0)
    with redis.Redis.from_url(own_redis.url) as client:
        client.flushall()
    if lost is not None:
        lost.set()
    async with asyncio.timeout(PATIENCE_S):
        while not failover.losses or failover.redis is None:
            await asyncio.sleep(SHORT_S)  # the engine reports no event for it
    return failover.redis, waiting


@pytest.mark.parametrize("step", ["begin_epoch", "fill_page", "end_fill"])
async def test_counts_and_pages_before_a_fill_begins(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Redis has lost all in a step of a fill and is in use again, and the queue's fill waits behind others: it fills
    the Redis that returned. The first step meets the loss, the others reach the next epoch, which knows no filler."""
    tolerate_stalls(monkeypatch)  # a Redis that is lost again would end the fill
    monkeypatch.setattr(known_queues, "FILL_WAIT_S", SHORT_S)
    begun, go_on = asyncio.Event(), asyncio.Event()
    original = getattr(RedisCache, step)

    async def held(cache: RedisCache, *arguments: object) -> object:
        if not begun.is_set():
            begun.set()
            await go_on.wait()
            if step == "begin_epoch":
                raise CacheUnavailable("Redis has lost content")
        return await original(cache, *arguments)

    monkeypatch.setattr(RedisCache, step, held)
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, _):
        queue = QueueFixture(engine, clock)
        async with asyncio.timeout(PATIENCE_S):
            await queue.send(*numbered(3))
            await begun.wait()
        cache, waiting = await lose_all(engine, own_redis, go_on if step == "begin_epoch" else None)
        assert await queue.counts() == (3, 0, 0)
        assert [one.body for one in await queue.peek_all()] == numbered(3)
        assert waiting.locked()
        go_on.set()
        waiting.release()
        async with asyncio.timeout(PATIENCE_S):
            while await cache.counts(QueueShard(queue.q.id), queue.now_ms, require_filled=True) is None:
                await asyncio.sleep(SHORT_S)  # nobody starts another fill
        assert await queue.counts() == (3, 0, 0)


async def test_counts_wait_for_the_rows_for_a_limited_time(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, reads: PageReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fill waits behind others, and the rows are many: one scan goes on for all callers. A depth that is not known
    is never 0."""
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, _):
        queue = QueueFixture(engine, clock)
        await queue.send(*numbered(3))
        known = engine._known_queues
        await known.wait_for_fill(await known.get(queue.q), QueueShard(queue.q.id))  # it reads the rows, too
        monkeypatch.setattr(known_queues, "FILL_WAIT_S", SHORT_S)
        monkeypatch.setattr(queue_contents, "BY_ROWS_S", SHORT_S)
        _, waiting = await lose_all(engine, own_redis)
        reads.clear()
        reads.stop_after(queue, 0)
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="not counted yet"):
                    await queue.counts()
            while not reads.order.count(queue.q.id):
                await asyncio.sleep(SHORT_S)  # the scan goes on after the counts ended
            assert reads.order.count(queue.q.id) == 1
            with pytest.raises(StoreUnavailable, match="not known yet"):
                await queue.peek_all()
        reads.go_on()
        monkeypatch.setattr(queue_contents, "BY_ROWS_S", PATIENCE_S)
        assert await queue.counts() == (3, 0, 0)
        waiting.release()


async def test_the_last_counts_stand_for_those_that_take_long(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, reads: PageReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as they are not old, and not of what was purged since."""
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, _):
        deep, purged = QueueFixture(engine, clock), QueueFixture(engine, clock)
        for queue in (deep, purged):
            await queue.send(*numbered(PAGE))
            await queue.send(*numbered(PAGE))
            assert await queue.counts() == (2 * PAGE, 0, 0)
        monkeypatch.setattr(known_queues, "FILL_WAIT_S", SHORT_S)  # not before: the fills of new queues take longer
        monkeypatch.setattr(queue_contents, "BY_ROWS_S", SHORT_S)
        await purged.purge()
        await purged.send(*numbered(1))
        cache, waiting = await lose_all(engine, own_redis)
        reads.clear()
        reads.stop_after(deep, 1)
        reads.stop_after(purged, 0)
        with pytest.raises(StoreUnavailable):
            await purged.counts()
        engine._known_queues.start_fill(await engine._known_queues.get(deep.q), QueueShard(deep.q.id))
        for _ in range(2):
            waiting.release()
        async with asyncio.timeout(PATIENCE_S):
            while await cache.counts(QueueShard(deep.q.id), deep.now_ms, require_filled=False) != (PAGE, 0, 0):
                await asyncio.sleep(SHORT_S)
        assert await deep.counts() == (2 * PAGE, 0, 0), "more than what is filled so far"
        monkeypatch.setattr(queue_contents, "LAST_MS_MAX", -1)
        assert await deep.counts() == (PAGE, 0, 0)
        reads.go_on()
