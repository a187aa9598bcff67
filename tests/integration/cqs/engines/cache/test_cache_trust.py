"""Processes of the engine `cqs` of which only some reach Redis, or whose Redis lost content: what one holds no other is
given, or it is counted."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from cns_common.cassandra.connection import CassandraAddress as Cluster
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.cluster import view
from cns_common.durations import HOUR_MS
from cns_common.errors import StartError, StoreUnavailable
from cns_common.metrics.catalogue import REDIS_REACHED_BY, REDIS_UP
from cns_common.redis.urls import FIRST_SERVER
from cqs.engines import cluster
from cqs.engines.cluster import ClusterEngine, open_engine, schema
from cqs.engines.cluster.cache_contract import CachedMessage, CacheUnavailable, LeaseRequest
from cqs.engines.cluster.ids import MessageLocation, QueueShard, bucket_name
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.unacked import UnackedDeliveries
from cqs.engines.contract import Message, Outcome
from lab.harness.own_redis import OwnRedis
from lab.harness.tcp_proxy import TcpProxy
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, bodies, numbered, until
from tests.integration.cqs.engines.cache.test_redis_outage import (
    processes,
    queues,
    receive_soon,
    repeats_counted,
    sample,
    until_counted,
    until_up,
)


@contextmanager
def another_redis(directory: Path, *options: str) -> Iterator[OwnRedis]:
    running = OwnRedis(directory, options=options)
    running.start()
    try:
        yield running
    finally:
        running.kill()


@contextmanager
def proxies(*targets: OwnRedis) -> Iterator[list[TcpProxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(TcpProxy(target.port)) for target in targets]


async def drain_both(*sides: QueueFixture, want: int) -> list[Message]:
    """`want` messages, received by all processes in turn."""
    arrived: list[Message] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(arrived) < want:
            for queue in sides:
                queue.now_ms = queue.clock.now_ms()
                arrived += await queue.take(10, HOUR_MS)
    return arrived


def repeated(messages: Sequence[Message]) -> int:
    return sum(n - 1 for n in Counter(bodies(messages)).values())


async def test_redis_lost_for_one_process(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """All processes do without Redis, until all have it again."""
    with proxies(own_redis) as (proxy,):
        async with processes(cassandra_address, proxy.redis_url, own_redis.url) as ((one, _), (two, _)):
            for _ in range(10):
                await one.send(*numbered(10))
            held = [*await receive_soon(one, 20, HOUR_MS), *await receive_soon(two, 20, HOUR_MS)]
            proxy.cut()
            held += await drain_both(one, two, want=30)
            assert not sample(two.engine, REDIS_UP)
            proxy.heal()
            await until_up(one, two)
            held += await drain_both(one, two, want=30)
            assert not [*await one.take(), *await two.take()]
            assert [*await one.delete(*held[::2]), *await two.delete(*held[1::2])] == [Outcome.DONE] * 100
            assert await one.counts() == (0, 0, 0)
            assert len({message.id for message in held}) == 100
            assert repeats_counted(one, two) == 0


async def test_processes_that_reach_different_servers(
    cassandra_address: Cluster, own_redis: OwnRedis, tmp_path: Path
) -> None:
    """A network split in two, with a server on each side."""
    with another_redis(tmp_path) as other, proxies(own_redis) as (proxy,):
        async with processes(cassandra_address, proxy.redis_url, own_redis.url) as ((one, _), (two, _)):
            await one.send(*numbered(60))
            held = [*await receive_soon(one, 10, HOUR_MS), *await receive_soon(two, 10, HOUR_MS)]
            proxy.point_at(other.port)
            held += await drain_both(one, two, want=40)
            assert sorted(bodies(held)) == numbered(60)
            assert not sample(one.engine, REDIS_UP)
            assert not sample(two.engine, REDIS_UP)
            proxy.point_at(own_redis.port)
            await until_up(one, two)
            assert not [*await one.take(), *await two.take()]
            assert await two.counts() == (0, 60, 0)


async def test_a_replica_that_takes_over(cassandra_address: Cluster, own_redis: OwnRedis, tmp_path: Path) -> None:
    """The address leads to another server, which has the same keys. Each process writes down what it holds."""
    with ExitStack() as stack:
        replica = stack.enter_context(another_redis(tmp_path))
        (proxy,) = stack.enter_context(proxies(own_redis))
        client = stack.enter_context(redis.Redis(port=replica.port))
        client.replicaof("127.0.0.1", str(own_redis.port))
        async with processes(cassandra_address, proxy.redis_url, proxy.redis_url) as ((one, _), (two, _)):
            await one.send(*numbered(30))
            held = [*await receive_soon(one, 10, HOUR_MS), *await receive_soon(two, 10, HOUR_MS)]
            await until(lambda: client.dbsize() != 0)
            own_redis.kill()
            client.replicaof("NO", "ONE")
            proxy.point_at(replica.port)
            held += await drain_both(one, two, want=10)
            await until_up(one, two)
            assert not [*await one.take(), *await two.take()]
            assert sorted(bodies(held)) == numbered(30)
            assert await one.delete(*held) == [Outcome.DONE] * 30
            assert repeats_counted(one, two) == 0


@pytest.mark.parametrize("lost", ["everything", "messages", "epoch"])
async def test_content_lost_while_redis_runs(cassandra_address: Cluster, own_redis: OwnRedis, lost: str) -> None:
    """After a FLUSHALL, or the eviction of one key, all processes write down what they hold; nothing stays hidden."""
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(30))
        held = [*await receive_soon(one, 10, HOUR_MS), *await receive_soon(two, 10, HOUR_MS)]
        with redis.Redis(port=own_redis.port) as client:
            if lost == "everything":
                client.flushall()
            else:
                assert client.delete(f"cqs:{{{two.q.id}}}:{'z' if lost == 'messages' else 'e'}") == 1
        held += await receive_soon(two, 10, HOUR_MS)
        assert sorted(bodies(held)) == numbered(30)
        await until_up(one, two)
        assert not [*await one.take(), *await two.take()]
        assert await one.counts() == (0, 30, 0)
        assert await one.delete(*held) == [Outcome.DONE] * 30
        assert repeats_counted(one, two) == 0


@pytest.mark.parametrize("answers", [True, False])
async def test_processes_with_different_settings_say_who_disagrees(
    cassandra_address: Cluster, own_redis: OwnRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    """Both do without Redis, and each knows what the other reaches."""
    monkeypatch.setattr(cluster, "START_S_MAX", 0.0)
    with another_redis(tmp_path) as other:
        url = other.url
        if not answers:
            other.kill()
            url = url.replace("//", "//user:secret@")
        async with processes(cassandra_address, own_redis.url, url) as ((one, _), (two, _)):
            this = f"{socket.gethostname()}/{os.getpid()}"
            reached = {(this, own_redis.url, 1.0), (this, other.url, float(answers))}
            for queue in (one, two):
                await until(lambda queue=queue: reached_by(queue) == reached)  # type: ignore[misc]  # a default is bound
                assert not sample(queue.engine, REDIS_UP)
        async with processes(cassandra_address, own_redis.url, own_redis.url) as ((one, _), (two, _)):
            await until_up(one, two)
            assert not reached_by(one) | reached_by(two)


def reached_by(queue: QueueFixture) -> set[tuple[str, str, float]]:
    """Each process, its address of Redis, and whether a server answers there."""
    assert isinstance(queue.engine, ClusterEngine)
    samples = [sample for sample in queue.engine.samples() if sample.name == REDIS_REACHED_BY.name]
    return {(labels["peer"], labels["address"], one.value) for one in samples for labels in [dict(one.labels)]}


async def test_lost_content_is_noticed_by_idle_processes(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(2))
        held = await receive_soon(one, 1, HOUR_MS)
        epoch = one.engine._servers.router.failovers()[0].redis.epoch  # type: ignore[attr-defined]  # no metric shows it
        with redis.Redis(port=own_redis.port) as client:
            client.flushall()
        async with asyncio.timeout(PATIENCE_S):
            while (cache := two.engine._servers.router.failovers()[0].redis) is None or cache.epoch == epoch:  # type: ignore[attr-defined]  # as above
                await asyncio.sleep(0.02)
        assert set(bodies(await receive_soon(two, 1, HOUR_MS))) == set(numbered(2)) - set(bodies(held))


@pytest.mark.extended
async def test_a_stopped_process_comes_back(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """The others cannot know what it holds. They go on without it, and what it comes back with is counted."""
    with proxies(own_redis) as (proxy,):
        async with processes(cassandra_address, own_redis.url, proxy.redis_url) as ((one, stopped), (two, _)):
            await one.send(*numbered(30))
            held = await receive_soon(one, 10, HOUR_MS)
            stopped.stop()
            proxy.cut()
            again = await drain_both(two, want=30)
            assert sorted(bodies(again)) == numbered(30)
            twice = [message for message in again if message.body in set(bodies(held))]
            assert len(twice) == 10
            assert await two.delete(*twice[:5]) == [Outcome.DONE] * 5
            stopped.go_on()
            proxy.heal()
            assert not await one.take()
            await until_up(one, two)
            assert not [*await one.take(), *await two.take()]
            outcomes = await one.delete(*held)
            assert Counter(outcomes) == {Outcome.GONE: 5, Outcome.DONE: 5}
            assert repeats_counted(one, two) == repeated([*held, *again]) == 10
            assert await two.counts() == (0, 20, 0)


async def test_a_process_that_cannot_renew_its_belief_leases_nothing(
    cassandra_address: Cluster, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cassandra does not answer it, though Redis does: others may have decided against Redis by now."""
    async with processes(cassandra_address, own_redis.url) as ((one, cassandra),):
        await one.send(*numbered(3))
        assert await receive_soon(one, 1)
        monkeypatch.setattr(view.View, "is_certain", False)
        monkeypatch.setattr(view, "RENEW_TIMEOUT_S", 0.05)
        cassandra.stop()
        with pytest.raises(StoreUnavailable):
            await one.take(1)
        monkeypatch.undo()
        cassandra.go_on()
        assert len(await receive_soon(one, 2)) == 2


async def test_a_lease_that_comes_back_too_late_is_undone(
    cassandra_address: Cluster, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was stopped while Redis answered. The messages are not given to its caller, who may be gone, too."""
    async with processes(cassandra_address, own_redis.url) as ((one, _),):
        await one.send(*numbered(2))
        assert await receive_soon(one, 1)
        lease = RedisCache.lease

        async def late(cache: RedisCache, shard: QueueShard, request: LeaseRequest) -> object:
            taken = await lease(cache, shard, request)
            monkeypatch.setattr(view.View, "is_certain", False)
            monkeypatch.setattr(view.View, "ensure_certain", refuse)
            came.append(taken)
            return taken

        async def refuse(*_: object) -> None:
            raise StoreUnavailable("Cassandra is away")

        came: list[object] = []
        monkeypatch.setattr(RedisCache, "lease", late)
        with pytest.raises(StoreUnavailable):
            await one.take(1)
        assert len(came) == 1
        monkeypatch.undo()
        await until_counted(one, (1, 1, 0))
        (message,) = await receive_soon(one, 1)
        assert message.deliveries == 1


async def test_the_next_epoch_does_not_know_the_redis_of_an_earlier_one(
    cassandra_address: Cluster, own_redis: OwnRedis
) -> None:
    """A server that kept its keys while others were in charge (a data centre that returns) has them filled again."""
    async with processes(cassandra_address, own_redis.url) as ((one, cassandra),):
        await one.send(*numbered(3))
        deleted, kept = await receive_soon(one, 2, HOUR_MS)
        epoch, server = (await cassandra.run(schema.READ_VIEW, FIRST_SERVER))[0][:2]
        assert await cassandra.run_conditional(schema.BEGIN_NEXT_EPOCH, epoch + 1, "", FIRST_SERVER, epoch)
        await until_up(one, up=False)
        assert await one.delete(deleted) == [Outcome.DONE]
        await until_up(one)
        newer, again = (await cassandra.run(schema.READ_VIEW, FIRST_SERVER))[0][:2]
        assert (newer, again) == (epoch + 2, server)
        await until_counted(one, (1, 1, 0))
        assert await one.delete(kept) == [Outcome.DONE]


async def test_a_process_of_an_earlier_epoch_changes_nothing(own_redis: OwnRedis) -> None:
    """Its scripts arrive in Redis after the other processes have begun another epoch."""
    clock = Clock()
    late, cache = (RedisCache(own_redis.url, clock, UnackedDeliveries()) for _ in range(2))
    item = CachedMessage(MessageLocation(bucket_name(0, clock.now_ms(), "deadbeef", 0), 1), clock.now_ms())
    for each, epoch in ((late, 1_000), (cache, 1_001)):
        each.trust(epoch, await each.ping())
        await each.register(epoch, epoch - 1)
        await late.register(1_000, 999)
        assert await each.begin_epoch(QueueShard("q"), 0, "filler") == 0
        assert await each.fill_page(QueueShard("q"), "filler", [item])
        await each.end_fill(QueueShard("q"), "filler")
    request = LeaseRequest(clock.now_ms(), 1, clock.now_ms() + HOUR_MS, 0)
    assert await late.lease(QueueShard("q"), request) is None
    assert await late.add(QueueShard("q"), [item], clock.now_ms()) is None
    with pytest.raises(CacheUnavailable):
        await late.begin_epoch(QueueShard("q"), 0, "another")
    await late.reset(QueueShard("q"), 7)
    taken = await cache.lease(QueueShard("q"), request)
    assert taken is not None
    assert [lease.key.location for lease in taken.leases] == [item.location]
    await late.close()
    await cache.close()


async def test_a_redis_that_evicts_is_refused(cassandra_address: Cluster, tmp_path: Path) -> None:
    cassandra = await Cassandra.open(cassandra_address)
    with (
        another_redis(tmp_path, "--maxmemory-policy", "allkeys-lru") as evicting,
        pytest.raises(StartError, match="maxmemory-policy allkeys-lru") as refusal,
    ):
        async with open_engine(cassandra, evicting.url, Clock()):
            pass
    assert "\n" not in str(refusal.value)
    await cassandra.close()
