"""The engine `cqs` over several Redis servers: which queues are where, and what the loss of one of them means."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import redis
from msgspec.structs import replace
from typer.testing import CliRunner

from cns_cli.main import app
from cns_common.cassandra.connection import CassandraAddress as Cluster
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cns_common.metrics.catalogue import REDIS_UP
from cqs.engines.cluster import ClusterEngine
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.options import NUMBER_OF_SHARDS
from cqs.engines.cluster.redis import cache as redis_cache
from cqs.engines.cluster.servers.operator import RedisServers, added, removed
from cqs.engines.cluster.servers.renewal import ContentRenewal
from cqs.engines.contract import Outcome
from lab.harness.own_redis import OwnRedis
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, bodies, numbered, until
from tests.integration.cqs.engines.cache.test_redis_outage import failover_of, queues, receive_soon, repeats_counted

QUEUES = 12
"""So many queues are on one of two servers only in one of 2,048 runs."""
MASTER_KEY = base64.b64encode(bytes(32)).decode()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[OwnRedis, ...]]:
    with ExitStack() as stack:
        started = []
        for name in "abc":
            directory = tmp_path / name
            directory.mkdir()
            server = OwnRedis(directory)
            server.start()
            stack.callback(server.kill)
            started.append(server)
        yield tuple(started)


@pytest.fixture
def two_servers(servers: tuple[OwnRedis, ...]) -> tuple[OwnRedis, ...]:
    return servers[:2]


def urls(servers: tuple[OwnRedis, ...]) -> str:
    return " ".join(f"{name}={server.url}" for name, server in zip("abcdef", servers, strict=False))


def server_of(queue: QueueFixture) -> str:
    """The name of the server that the layout gives the queue."""
    assert isinstance(queue.engine, ClusterEngine)
    (shard,) = queue.engine._servers.router.shards(queue.q.id)
    placement = queue.engine._servers.router.layout.place(shard)
    assert placement is not None
    return placement.server


def up(queue: QueueFixture) -> dict[str, float]:
    assert isinstance(queue.engine, ClusterEngine)
    samples = [sample for sample in queue.engine.samples() if sample.name == REDIS_UP.name]
    return {dict(sample.labels)["server"]: sample.value for sample in samples}


def keys(server: OwnRedis) -> set[str]:
    """The queues that have keys on the server."""
    with redis.Redis(port=server.port) as client:
        return {key.decode().split("{")[1].split("}")[0] for key in client.scan_iter("cqs:{*}:z")}


def more(queue: QueueFixture, n: int) -> list[QueueFixture]:
    """Further queues of the same process."""
    return [QueueFixture(queue.engine, queue.clock) for _ in range(n)]


async def test_queues_are_spread_over_the_servers(
    cassandra_address: Cluster, two_servers: tuple[OwnRedis, ...]
) -> None:
    async with queues(cassandra_address, urls(two_servers), 2) as (one, two):
        several = more(one, QUEUES)
        for queue in several:
            await queue.send(*numbered(3))
        for queue in several:
            there = queue.at(two.engine)
            held = await receive_soon(there, 2, HOUR_MS)
            assert len(await queue.delete(held[0])) == 1
            assert await there.counts() == (1, 1, 0)
            assert await there.delete(held[1]) == [Outcome.DONE]
            assert bodies(await receive_soon(queue, 1)) == numbered(3)[2:]
        placed = {queue.q.id: server_of(queue) for queue in several}
        assert placed == {queue.q.id: server_of(queue.at(two.engine)) for queue in several}
        for name, server in zip("ab", two_servers, strict=True):
            assert keys(server) == {queue for queue, place in placed.items() if place == name} != set()


async def test_a_long_poll_is_woken_through_each_server(
    cassandra_address: Cluster, two_servers: tuple[OwnRedis, ...]
) -> None:
    async with queues(cassandra_address, urls(two_servers), 2) as (one, two):
        for queue in more(one, QUEUES):
            there = queue.at(two.engine)
            assert not await there.take()
            waiter = there.engine.waiter(there.q)
            await queue.send(b"x")
            assert await waiter.wait(PATIENCE_S)
            assert bodies(await there.take()) == [b"x"]
            waiter.close()


async def test_the_loss_of_one_server_concerns_only_its_queues(
    cassandra_address: Cluster, two_servers: tuple[OwnRedis, ...]
) -> None:
    """Its queues go on without it, the others do not notice; then it is filled again. Nothing comes twice."""
    async with queues(cassandra_address, urls(two_servers), 2) as (one, two):
        several = more(one, QUEUES)
        held = {}
        for queue in several:
            await queue.send(*numbered(4))
            held[queue.q.id] = [
                *await receive_soon(queue, 1, HOUR_MS),
                *await receive_soon(queue.at(two.engine), 1, HOUR_MS),
            ]
        two_servers[1].kill()
        for queue in several:
            held[queue.q.id] += await receive_soon(queue, 1, HOUR_MS)
        await until(lambda: not any(up(process)["b"] for process in (one, two)))
        for process in (one, two):
            assert up(process) == {"a": 1, "b": 0}
        two_servers[1].start()
        await until(lambda: all(up(process)["b"] for process in (one, two)))
        for queue in several:
            held[queue.q.id] += await receive_soon(queue.at(two.engine), 1, HOUR_MS)
            assert sorted(bodies(held[queue.q.id])) == numbered(4)
            assert not await queue.take()
            assert await queue.counts() == (0, 4, 0)
            assert await queue.delete(*held[queue.q.id]) == [Outcome.DONE] * 4
            assert await queue.counts() == (0, 0, 0)


@pytest.mark.extended
async def test_servers_are_added_and_removed_while_messages_flow(
    cassandra_address: Cluster, servers: tuple[OwnRedis, ...]
) -> None:
    """Two processes send, receive and delete all the time. Each message is delivered once, and none is lost."""
    async with (
        queues(cassandra_address, urls(servers[:2]), 2) as (one, two),
        operator(cassandra_address) as redis_servers,
    ):
        several = more(one, QUEUES)
        held = {}
        for queue in several:
            await queue.send(*numbered(4, b"held"))
            held[queue.q.id] = [
                *await receive_soon(queue, 2, HOUR_MS),
                *await receive_soon(queue.at(two.engine), 2, HOUR_MS),
            ]
        sent: Counter[bytes] = Counter()
        arrived: Counter[bytes] = Counter()
        stopping = asyncio.Event()
        traffic = [
            asyncio.create_task(exchange(queue.at(two.engine), queue, sent, arrived, stopping)) for queue in several
        ]
        before = {queue.q.id: server_of(queue) for queue in several}
        assert await redis_servers.change(added("c", servers[2].url))
        await until_used(("a", "b", "c"), one, two)
        with_c = {queue.q.id: server_of(queue) for queue in several}
        assert {name for queue, name in with_c.items() if name != before[queue]} <= {"c"}
        assert await redis_servers.change(removed("a"))
        await until_used(("b", "c"), one, two)
        without_a = {queue.q.id: server_of(queue.at(two.engine)) for queue in several}
        assert set(without_a.values()) <= {"b", "c"}
        assert all(without_a[queue] == name for queue, name in with_c.items() if name != "a")
        assert await redis_servers.change(added("a", servers[0].url))
        await until_used(("b", "c", "a"), one, two)
        assert {queue.q.id: server_of(queue) for queue in several} == with_c
        stopping.set()
        await asyncio.gather(*traffic)
        assert arrived == sent
        assert set(sent.values()) == {1}
        for queue in several:
            assert not await queue.take()
            assert await queue.counts() == (0, 4, 0)
            assert await queue.delete(*held[queue.q.id]) == [Outcome.DONE] * 4
            assert await queue.counts() == (0, 0, 0)
        assert up(one) == up(two) == dict.fromkeys("abc", 1)
        assert repeats_counted(one, two) == 0


async def test_a_process_with_another_list_uses_the_others_servers(
    cassandra_address: Cluster, servers: tuple[OwnRedis, ...]
) -> None:
    """Its settings name one server. It finds the other in Cassandra; alone, it uses its own only."""
    async with queues(cassandra_address, urls(servers[:2]), 1) as (one,):
        several = more(one, QUEUES)
        for queue in several:
            await queue.send(*numbered(2))
        async with queues(cassandra_address, urls(servers[:1]), 1) as (two,):
            for queue in several:
                there = queue.at(two.engine)
                assert bodies(await receive_soon(there, 1, HOUR_MS)) == numbered(1)
                assert bodies(await receive_soon(queue, 1, HOUR_MS)) == numbered(2)[1:]
                assert server_of(there) == server_of(queue)
    async with queues(cassandra_address, urls(servers[:1]), 1) as (three,):
        assert up(three) == {"a": 1}
        for queue in several:
            assert await queue.at(three.engine).counts() == (0, 2, 0)


async def exchange(
    sender: QueueFixture, receiver: QueueFixture, sent: Counter[bytes], arrived: Counter[bytes], stopping: asyncio.Event
) -> None:
    """Send, receive and delete one message after the other; at the end what is left."""
    while not stopping.is_set():
        body = f"{sender.q.id} {sent.total()}".encode()
        sent[body] += 1
        await sender.send(body)
        for message in await receiver.take(1, HOUR_MS):
            arrived[message.body] += 1
            assert await receiver.delete(message) == [Outcome.DONE]
    async with asyncio.timeout(PATIENCE_S):
        while sum(sent[body] for body in sent if body.startswith(sender.q.id.encode())) > sum(
            arrived[body] for body in arrived if body.startswith(sender.q.id.encode())
        ):
            for message in await receive_soon(receiver, 1, HOUR_MS):
                arrived[message.body] += 1
                await receiver.delete(message)


async def until_used(names: tuple[str, ...], *processes: QueueFixture) -> None:
    for process in processes:
        assert isinstance(process.engine, ClusterEngine)
        router = process.engine._servers.router
        await until(lambda router=router: tuple(router.layout.names) == names and router.is_settled)  # type: ignore[misc]  # a default is bound


@asynccontextmanager
async def operator(place: Cluster) -> AsyncIterator[RedisServers]:
    cassandra = await Cassandra.open(place)
    yield RedisServers(cassandra, Clock())
    await cassandra.close()


def renewal_of(queue: QueueFixture) -> ContentRenewal:
    assert isinstance(queue.engine, ClusterEngine)
    return ContentRenewal(queue.engine._servers.router, queue.engine._known_queues, queue.clock)


@pytest.mark.extended
async def test_an_operator_changes_the_servers(
    cassandra_address: Cluster, servers: tuple[OwnRedis, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands' answers, and their refusals."""
    host, port = cassandra_address.hosts[0], cassandra_address.port
    settings = {"STORE": "cassandra", "CASSANDRA": f"{host}:{port}", "CASSANDRA_KEYSPACE": cassandra_address.keyspace}
    for name, value in (settings | {"DATA": str(tmp_path / "data"), "MASTER_KEY": MASTER_KEY}).items():
        monkeypatch.setenv(f"CNS_{name}", value)
    async with queues(cassandra_address, urls(servers[:1]), 2) as (one, two):
        address = f"redis://127.0.0.1:{servers[1].port}/0"
        assert await cns("add", "b", address.replace("//", "//user:secret@")) == (
            0,
            "cns: b is used; add it to CNS_REDIS of all processes\n",
        )
        await until_used(("a", "b"), one, two)
        code, text = await cns("list")
        lines = [line.split("\t") for line in text.splitlines()]
        assert code == 0
        assert [line[:3] for line in lines] == [["a", servers[0].url, "in use"], ["b", address, "in use"]]
        assert await cns("add", "b", address) == (2, "cns: there is a server b already\n")
        assert await cns("add", "B", address) == (2, "cns: a name has up to 32 small letters, digits and hyphens\n")
        assert (await cns("add", "c", "http://x"))[0] == 2
        assert await cns("remove", "d") == (2, "cns: there is no server d\n")
        assert (await cns("remove", "a"))[0] == 0
        await until_used(("b",), one, two)
        assert (await cns("remove", "b"))[0] == 2
        await one.send(b"x")
        assert bodies(await receive_soon(two, 1)) == [b"x"]


async def cns(*words: str) -> tuple[int, str]:
    """The exit code and the output of `cns redis servers`."""
    result = await asyncio.to_thread(CliRunner().invoke, app, ["redis", "servers", *words])
    return result.exit_code, result.output


async def test_keys_of_unused_queues_expire(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """Each use renews the time to live. A queue whose keys have expired is filled from the rows, and no content was
    lost."""
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await one.send(*numbered(3))
        (held,) = await receive_soon(two, 1, HOUR_MS)
        failover = failover_of(one)
        epoch = failover.redis.epoch  # type: ignore[union-attr]  # it is in use
        with redis.Redis(port=own_redis.port) as client:
            names = sorted(client.scan_iter(f"cqs:{{{one.q.id}}}:*"))
            assert [name[-1:] for name in names] == [b"e", b"f", b"m", b"z"]
            for name in names:
                client.pexpire(name, HOUR_MS)
            renewal = renewal_of(one)
            await renewal.step()
            assert all(client.pttl(name) > redis_cache.IDLE_TTL_MS - HOUR_MS for name in names)
            for name in names:
                client.pexpire(name, HOUR_MS)
            await renewal.step()
            assert all(client.pttl(name) <= HOUR_MS for name in names), "nobody used it since"
            await failover.save_hidden(QueueShard(one.q.id))
            await failover_of(two).save_hidden(QueueShard(one.q.id))
            client.delete(*names)
            registry = f"cqs:filled:{epoch}"
            filled = [name for name in client.zrange(registry, 0, -1) if name.startswith(one.q.id.encode())]
            client.zadd(registry, dict.fromkeys(filled, 1))  # as if it was renewed long ago
            assert sorted(bodies(await receive_soon(one, 2))) == sorted(set(numbered(3)) - {held.body})
            assert failover.redis is not None
            assert failover.redis.epoch == epoch
            assert await one.counts() == (0, 3, 0)


@pytest.mark.extended
async def test_a_queue_over_several_servers(cassandra_address: Cluster, two_servers: tuple[OwnRedis, ...]) -> None:
    """Its number of shards changes while messages are in flight. No receive is empty before all are taken."""
    async with queues(cassandra_address, urls(two_servers), 2) as (one, two):
        await one.send(*numbered(20, b"before"))
        held = [*await receive_soon(one, 5, HOUR_MS), *await receive_soon(two, 5, HOUR_MS)]
        for count in (8, 3, 1):
            for queue in (one, two):
                queue.q = replace(queue.q, options=((NUMBER_OF_SHARDS, str(count)),))
            await asyncio.gather(*[one.send(body) for body in numbered(40, b"%d" % count)])
            await until_sharded(count, one, two)
            assert await two.counts() == (10 + 40, 10, 0)
            names = {name for server in two_servers for name in keys(server) if name.startswith(one.q.id)}
            assert {shard.name for shard in shards_of(one)} <= names
            got: list[bytes] = []
            while batch := await two.take(7, HOUR_MS):
                got += bodies(batch)
                assert await one.delete(*batch) == [Outcome.DONE] * len(batch)
                if len(got) >= 40:
                    break
            assert len(got) >= 40
            await one.send(*[b"again " + body for body in got[: len(got) - 40]])
            assert await one.counts() == (10, 10, 0)
        assert await one.delete(*held) == [Outcome.DONE] * 10
        assert await two.counts() == (10, 0, 0)
        assert repeats_counted(one, two) == 0


def shards_of(queue: QueueFixture) -> tuple[QueueShard, ...]:
    assert isinstance(queue.engine, ClusterEngine)
    return queue.engine._servers.router.shards(queue.q.id)


async def until_sharded(count: int, *processes: QueueFixture) -> None:
    def settled(process: QueueFixture) -> bool:
        return len(shards_of(process)) == count and process.engine._servers.router.is_settled  # type: ignore[attr-defined]  # it is a ClusterEngine

    await until(lambda: all(map(settled, processes)))
