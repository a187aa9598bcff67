"""Buckets of processes whose clocks differ: a bucket is closed by a seal that its writer meets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.cluster import ClusterEngine, bucket_writer, maintenance, schema
from cqs.engines.cluster.ids import parse_handle
from cqs.engines.cluster.maintenance import drop_empty
from cqs.engines.cluster.ownership import process_names
from cqs.engines.cluster.ownership.owned_queues import OwnedQueue
from cqs.engines.cluster.rows import ListedBucket, MessageRows
from cqs.engines.contract import Entry
from lab.harness.own_redis import OwnRedis
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, bodies, numbered
from tests.integration.cqs.engines.machines import SECOND_NS, at_present, processes
from tests.machine_clocks import MachineClocks


@pytest.fixture(autouse=True)
def late_calls_are_tolerated() -> None:
    """Not here: clocks differ from Redis' by seconds, and its scripts are to see that."""


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cassandra ends leases after a second: its clock cannot be advanced."""
    life = f"TTL {schema.BUCKET_LEASE_S}"
    for name in ("LEASE_NEW_BUCKET", "LEASE_BUCKET"):
        assert life in getattr(schema, name).cql
        monkeypatch.setattr(schema, name, Statement(getattr(schema, name).cql.replace(life, "TTL 1")))


_owned: dict[str, OwnedQueue] = {}


def rows_of(queue: QueueFixture) -> MessageRows:
    assert isinstance(queue.engine, ClusterEngine)
    return queue.engine._rows


async def buckets(queue: QueueFixture) -> list[ListedBucket]:
    return await rows_of(queue).listed_buckets(queue.q.id, "")


async def maintain(queue: QueueFixture) -> None:
    """Do with the buckets as the queue's owner does; here the owner is a process that the test chooses."""
    owned = _owned.setdefault(queue.q.id, OwnedQueue(queue.q))
    await drop_empty(rows_of(queue), owned, await buckets(queue), 100, queue.now_ms)


async def unleased(queue: QueueFixture) -> None:
    """Wait until nobody has a lease on a bucket of the queue."""
    async with asyncio.timeout(PATIENCE_S):
        while any(bucket.leased for bucket in await buckets(queue)):
            await asyncio.sleep(0.1)


async def receive_all(queue: QueueFixture, n: int) -> list[bytes]:
    """Receive until there are `n` messages: after a jump of the clock a receive may find none at first."""
    received: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(received) < n:
            received += bodies(await queue.take())
            await asyncio.sleep(0)
    return received


async def stored(queue: QueueFixture) -> list[bytes]:
    """All messages in the rows of the queue's buckets."""
    rows = rows_of(queue)
    return [row.body for one in await buckets(queue) for row in await rows.page(queue.q.id, one.name, -1, 100)]


@pytest.mark.parametrize("behind_s", [60, pytest.param(75, marks=pytest.mark.extended)])
async def test_a_writer_behind_loses_no_message(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, behind_s: int
) -> None:
    """To the other process the writer's bucket seems an hour old while the writer still uses it."""
    async with processes(cassandra_address, own_redis.url, behind_s, 3_592) as (machine, writer, other):
        await writer.send(b"first")
        await other.delete(*await other.take())
        for seconds in (3_561, 31):
            machine.run(seconds * SECOND_NS)
            at_present(writer, other)
            await maintain(other)
        await writer.send(b"last")
        at_present(writer, other)
        assert await receive_all(other, 1) == [b"last"]


async def test_a_leased_bucket_is_not_sealed(cassandra_address: CassandraAddress, own_redis: OwnRedis) -> None:
    async with processes(cassandra_address, own_redis.url, 0, 7_200) as (machine, writer, other):
        await writer.send(b"first")
        await other.delete(*await other.take())
        machine.run(7_200 * SECOND_NS)
        at_present(writer, other)
        (bucket,) = await buckets(writer)
        assert bucket.leased
        assert not await rows_of(other).seal(writer.q.id, bucket.name)
        await maintain(other)
        assert await buckets(writer) == [bucket]


@pytest.mark.usefixtures("short_leases")
async def test_a_send_meets_a_seal(cassandra_address: CassandraAddress, own_redis: OwnRedis) -> None:
    """The bucket was sealed and removed while its writer, whose clock is behind, did not send."""
    async with processes(cassandra_address, own_redis.url, 60, 3_602) as (machine, writer, other):
        await writer.send(b"first")
        await other.delete(*await other.take())
        machine.run(3_601 * SECOND_NS)
        at_present(writer, other)
        (before,) = await buckets(writer)
        await unleased(writer)
        for _ in range(2):
            await maintain(other)
        assert not await buckets(writer)
        await asyncio.gather(*[writer.send(body) for body in numbered(5)])
        at_present(writer, other)
        (after,) = await buckets(writer)
        assert after.name != before.name
        assert sorted(await receive_all(other, 5)) == sorted(await stored(writer)) == numbered(5)
        assert not await rows_of(other).page(writer.q.id, before.name, -1, 100)  # no copy is left behind the seal


@pytest.mark.usefixtures("short_leases")
async def test_a_writer_stopped_during_a_send_meets_a_seal(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease ends between the write and the answer; another process seals the bucket, which it had found empty."""
    async with processes(cassandra_address, own_redis.url, 0, 3_700) as (machine, writer, other):
        await writer.send(b"first")
        await other.delete(*await other.take())
        run, stopped = Cassandra.run, False

        async def run_and_stop(cassandra: Cassandra, statement: Statement, *values: object) -> list[Row]:
            nonlocal stopped
            rows = await run(cassandra, statement, *values)
            if statement is schema.INSERT and not stopped:
                stopped = True
                await unleased(writer)
                machine.run(3_700 * SECOND_NS)
                (bucket,) = await buckets(writer)
                assert await rows_of(other).seal(writer.q.id, bucket.name)
                (sealed,) = await buckets(writer)
                await rows_of(other).remove_sealed(writer.q.id, sealed)
            return rows

        monkeypatch.setattr(Cassandra, "run", run_and_stop)
        await writer.send(b"last")
        at_present(writer, other)
        assert await receive_all(other, 1) == await stored(writer) == [b"last"]


async def test_a_removal_does_not_cover_what_comes_after_the_seal(
    cassandra_address: CassandraAddress, own_redis: OwnRedis
) -> None:
    """A second defence: were a message written behind the seal, its row would stay readable."""
    async with processes(cassandra_address, own_redis.url, 0, 0) as (machine, writer, other):
        await writer.send(b"deleted")
        (message,) = await writer.take()
        key = parse_handle(message.handle)
        assert key is not None
        await writer.delete(message)
        rows = rows_of(other)
        await rows._cassandra.run(schema.SEAL_OWN_BUCKET, writer.q.id, key.location.bucket)
        (sealed,) = await buckets(writer)
        machine.run(60 * SECOND_NS)
        at_present(writer)
        await writer.send(b"behind the seal")  # the lease is valid: the rule was broken
        await rows.remove_sealed(writer.q.id, sealed)
        assert await receive_all(writer, 1) == [b"behind the seal"]


async def test_full_buckets_are_sealed_by_their_writer_and_go_when_empty(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_writer, "BUCKET_ROWS_MAX", 10)
    monkeypatch.setattr(maintenance, "EMPTY_CHECKS", 10)
    async with processes(cassandra_address, own_redis.url, 0, 0) as (_, writer, other):
        for at in range(3):
            await writer.send(*numbered(10, b"%d" % at))
        async with asyncio.timeout(PATIENCE_S):
            while [one.sealed for one in await buckets(writer)] != [True, True, False]:
                await asyncio.sleep(0.1)
        at_present(other)
        taken = await other.drain(3_600_000)
        await other.delete(*[message for message in taken if message.body.startswith(b"0")])
        await maintain(other)
        assert len(await buckets(writer)) == 2
        assert sorted(await stored(writer)) == [*numbered(10, b"1"), *numbered(10, b"2")]


async def test_two_processes_never_have_one_name(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both draw the same name and write their first bucket in the same millisecond: the second one draws again."""
    drawn = iter([*[hex_id()] * 2, *[hex_id() for _ in range(3)]])
    monkeypatch.setattr(process_names, "hex_id", lambda: next(drawn))
    async with processes(cassandra_address, own_redis.url, 0, 0) as (_, one, two):
        assert rows_of(one).node != rows_of(two).node
        two.now_ms = one.now_ms
        await asyncio.gather(one.send(*numbered(5, b"one ")), two.send(*numbered(5, b"two ")))
        assert len(await buckets(one)) == 2
        assert sorted(await stored(one)) == [*numbered(5, b"one "), *numbered(5, b"two ")]


@asynccontextmanager
async def rows_of_machines(address: CassandraAddress, *ahead_s: int) -> AsyncIterator[list[tuple[MessageRows, Clock]]]:
    """Rows of processes whose clocks are ahead of the real one by these times."""
    real_ns = time.time_ns()
    async with AsyncExitStack() as stack:
        opened: list[tuple[MessageRows, Clock]] = []
        for seconds in ahead_s:
            cassandra = await Cassandra.open(address)
            stack.push_async_callback(cassandra.close)
            clock = MachineClocks(real_ns + seconds * SECOND_NS).clock()
            opened.append((MessageRows(cassandra, clock, f"{len(opened):08x}"), clock))
        yield opened


@pytest.mark.parametrize(("deleter_s", "sender_s"), [(-60, 60), (60, -60)])
async def test_a_delete_covers_its_message_whatever_the_clocks(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, deleter_s: int, sender_s: int
) -> None:
    async with rows_of_machines(cassandra_address, sender_s, deleter_s) as ((sending, sender_clock), (deleting, _)):
        queue_id, now_ms = hex_id(), sender_clock.now_ms()
        locations = await sending.insert(queue_id, 0, [Entry("id", b"deleted", now_ms, now_ms)], now_ms)
        await deleting.delete(queue_id, locations)
        assert not await sending.read(queue_id, locations)


@pytest.mark.parametrize("sender_s", [-60, 60])
async def test_a_new_body_replaces_the_old_one_whatever_the_clocks(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, sender_s: int
) -> None:
    """Else a job that was renewed would be done again from where it was."""
    async with rows_of_machines(cassandra_address, sender_s, -sender_s) as ((sending, clock), (renewing, _)):
        queue_id, now_ms = hex_id(), clock.now_ms()
        (location,) = await sending.insert(queue_id, 0, [Entry("id", b"0", now_ms, now_ms)], now_ms)
        for turn, rows in enumerate((renewing, sending, renewing), 1):
            await rows.replace_body(queue_id, location, b"%d" % turn)
            assert (await sending.read(queue_id, [location]))[location].body == b"%d" % turn
        await renewing.delete(queue_id, [location])
        assert not await sending.read(queue_id, [location])
