"""FIFO queues of the engine `cqs` in several processes at once: one order, one deduplication, one lease per message."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Row, Statement
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.errors import OutcomeUnknown
from cqs.engines.cluster import ClusterEngine, known_queues
from cqs.engines.cluster.fifo import engine as fifo_engine
from cqs.engines.cluster.fifo import log, schema
from cqs.engines.cluster.no_redis import cache as fallback
from cqs.engines.contract import Change, Outcome, QueueRef, RejectedEntry, SentEntry
from lab.harness.keyspace import asked
from lab.harness.own_redis import OwnRedis
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture, bodies
from tests.integration.cqs.engines.test_cluster_engine import open_with_session

GROUPS = 6
MESSAGES = 25
WOKEN_S = PATIENCE_S


@asynccontextmanager
async def processes(place: CassandraAddress, n: int, url: str = "") -> AsyncIterator[list[QueueFixture]]:
    """One FIFO queue, used through `n` engines."""
    clock = Clock()
    q = QueueRef(f"queue-{uuid.uuid4()}", True, DAY_MS)
    async with AsyncExitStack() as stack:
        queues = []
        for _ in range(n):
            engine, _ = await stack.enter_async_context(open_with_session(place, url, clock))
            queue = QueueFixture(engine, clock, fifo=True)
            queue.q = q
            queues.append(queue)
        for queue in queues:  # the first was opened seconds before the last on a busy machine
            queue.now_ms = queues[-1].now_ms
        yield queues


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logs with small segments and frequent snapshots."""
    monkeypatch.setattr(schema, "SEGMENT_SLOTS", 4)
    monkeypatch.setattr(schema, "SNAPSHOT_EVERY_SLOTS", 9)
    monkeypatch.setattr(schema, "CHUNK_BYTES", 100)
    monkeypatch.setattr(schema, "OBSOLETE_KEEP_MS", 0)
    yield


async def _clear(queue: QueueFixture) -> None:
    """Remove what is obsolete."""
    engine = queue.engine
    assert isinstance(engine, ClusterEngine)
    await engine._fifo.close()  # this waits for a snapshot that is being written
    await engine._fifo.clear_log(queue.q.id, 1_000)


async def _sent_and_received(queues: list[QueueFixture]) -> None:
    """Each process sends to its own groups and to a common one; all receive and delete until no message is left."""
    received: defaultdict[str, list[bytes]] = defaultdict(list)
    in_flight: set[str] = set()
    total = len(queues) * MESSAGES * 2

    async def send(queue: QueueFixture, name: str) -> None:
        for number in range(MESSAGES):
            await queue.send(b"%d" % number, group=f"{name}{number % GROUPS}", dedup=f"{name}-{number}")
            await queue.send(b"common %s %d" % (name.encode(), number), group="common")

    async def take(queue: QueueFixture) -> None:
        while sum(map(len, received.values())) < total:
            messages = await queue.take(5, 60_000)
            for group in {message.group for message in messages}:
                assert group not in in_flight, "a group is held by one receive at a time"
                in_flight.add(group)
            for message in messages:
                received[message.group].append(message.body)
            in_flight.difference_update(message.group for message in messages)
            assert set(await queue.delete(*messages)) <= {Outcome.DONE}

    names = [chr(ord("a") + index) for index in range(len(queues))]
    senders = [send(queue, name) for queue, name in zip(queues, names, strict=True)]
    await asyncio.wait_for(asyncio.gather(*senders, *[take(queue) for queue in queues]), PATIENCE_S)
    for name in names:
        for group in range(GROUPS):
            expected = [b"%d" % number for number in range(MESSAGES) if number % GROUPS == group]
            assert received[f"{name}{group}"] == expected
        common = [body for body in received["common"] if body.startswith(b"common %s" % name.encode())]
        assert common == [b"common %s %d" % (name.encode(), number) for number in range(MESSAGES)]
    for queue in queues:
        assert await queue.counts() == (0, 0, 0)


async def test_order_and_locks_hold_across_processes(cassandra_address: CassandraAddress) -> None:
    async with processes(cassandra_address, 3) as queues:
        await _sent_and_received(queues)


async def test_order_and_locks_hold_during_snapshots(cassandra_address: CassandraAddress, small_segments: None) -> None:
    async with processes(cassandra_address, 2) as queues:

        async def clear() -> None:
            while True:
                await _clear(queues[0])
                await asyncio.sleep(0.05)  # a worker does this every few seconds

        clearing = asyncio.create_task(clear())
        await _sent_and_received(queues)
        clearing.cancel()


async def test_deduplication_is_one_for_all(cassandra_address: CassandraAddress) -> None:
    async with processes(cassandra_address, 3) as queues:
        sent = await asyncio.gather(*[queue.send(b"x", group="g", dedup="same") for queue in queues * 3])
        answers = [answer for (answer,) in sent]
        assert all(isinstance(answer, SentEntry) for answer in answers)
        assert len({(answer.id, answer.sequence) for answer in answers if isinstance(answer, SentEntry)}) == 1
        assert [answer.duplicate for answer in answers if isinstance(answer, SentEntry)].count(False) == 1
        assert await queues[0].counts() == (1, 0, 0)


@pytest.mark.parametrize("reads", [True, False])
async def test_a_slow_process_reads_the_snapshot(
    cassandra_address: CassandraAddress, small_segments: None, reads: bool
) -> None:
    """The slot of a slow process was removed meanwhile: it can neither write there nor read a wrong state."""
    async with processes(cassandra_address, 2) as (here, away):
        await away.send(b"0", group="g")
        for number in range(1, 40):
            await here.send(b"%d" % number, group="g")
        await _clear(here)
        if reads:
            assert await away.counts() == (40, 0, 0)
        await away.send(b"last", group="g")
        received: list[bytes] = []
        while messages := await here.take():
            received += bodies(messages)
            await here.delete(*messages)
        assert received == [b"%d" % number for number in range(40)] + [b"last"]


@pytest.mark.parametrize("dedup", ["", "k"])
async def test_an_append_with_a_late_answer(
    cassandra_address: CassandraAddress, small_segments: None, dedup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append was applied and its segment removed before the answer: it must not be reported as failed."""
    async with processes(cassandra_address, 2) as (late, other):
        await late.send(b"first", group="g")
        assert isinstance(late.engine, ClusterEngine)
        cassandra = late.engine._fifo._cassandra
        run = cassandra.run

        async def stopped_in_between(statement: Statement, *values: object) -> list[Row]:
            rows = await run(statement, *values)
            if statement is schema.PROPOSE and cassandra.run is stopped_in_between:
                cassandra.run = run  # type: ignore[method-assign]  # for one statement
                for number in range(40):
                    await other.send(b"other", group=f"{number}")
                await _clear(other)
                return await run(statement, *values)  # the driver's next try, minutes later
            return rows

        cassandra.run = stopped_in_between  # type: ignore[method-assign]  # for one statement
        with monkeypatch.context() as patch, pytest.raises(OutcomeUnknown):
            patch.setattr(log, "UNSEALED_S", 0.0)
            await late.send(b"precious", group="p", dedup=dedup)
        if dedup:
            await late.send(b"precious", group="p", dedup=dedup)  # the retry of an SDK
        received = [body for _ in range(5) for body in bodies(await other.take())]
        assert received.count(b"precious") == 1


async def test_a_new_body_after_a_purge(cassandra_address: CassandraAddress) -> None:
    """The process that changes the body has not noticed the purge: the body must not be in a purged bucket."""
    async with processes(cassandra_address, 2) as (here, there):
        await there.counts()
        await here.purge()
        await here.send(b"old", group="g")
        message = await there.take_one(3_000)
        await there.engine.change(there.q, [Change(message.handle, there.now_ms + 1_000, b"new")], there.now_ms)
        for _ in range(3):
            await here.engine.maintain(500, here.now_ms)
        here.advance(5_000)
        assert bodies(await here.take()) == [b"new"]


async def test_a_purge_is_a_purge_for_all(cassandra_address: CassandraAddress) -> None:
    async with processes(cassandra_address, 2) as (here, there):
        await here.send(b"before", group="g", dedup="k")
        assert await there.counts() == (1, 0, 0)
        await there.purge()
        assert await here.counts() == (0, 0, 0)
        await here.send(b"after", group="g", dedup="k")
        assert bodies(await there.take()) == [b"after"]


async def test_a_dropped_queue_is_gone_for_all(cassandra_address: CassandraAddress) -> None:
    async with processes(cassandra_address, 3) as (here, there, later):
        await here.send(b"x", group="g")
        held = await there.take_one()
        await here.drop()
        assert await there.delete(held) == [Outcome.GONE]
        for queue in (here, there, later):
            assert all(
                isinstance(answer, RejectedEntry) for answer in await queue.send_entries([queue.entry(b"y", group="g")])
            )
            assert (await queue.receive()).dropped


@pytest.mark.parametrize("hinted", [True, False], ids=["by a hint", "by a look"])
async def test_a_poll_hears_of_another_process(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch, hinted: bool
) -> None:
    """With Redis by a hint alone: no step of the polling looks."""
    monkeypatch.setattr(fifo_engine, "HINTED_STEPS", 10**9)
    async with processes(cassandra_address, 2, own_redis.url if hinted else "") as (here, there):
        waiter = await there.wait()
        await here.send(b"x", group="g")
        assert await waiter.wait(WOKEN_S)
        assert bodies(await there.take()) == [b"x"]


async def test_a_poll_hears_of_another_process_while_redis_is_lost(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hints come: each step of the polling looks. While they come, most steps do not."""
    monkeypatch.setattr(fifo_engine, "HINTED_STEPS", 10**9)
    async with processes(cassandra_address, 2, own_redis.url) as (here, there):
        own_redis.kill()
        for queue in (here, there):
            assert isinstance(queue.engine, ClusterEngine)
            queue.engine._servers.router.failovers()[0].mark_lost("killed")
        waiter = await there.wait()
        await here.send(b"x", group="g")
        assert await waiter.wait(WOKEN_S)
        assert bodies(await there.take()) == [b"x"]


async def test_hints_spare_polls(monkeypatch: pytest.MonkeyPatch, cassandra_address: CassandraAddress) -> None:
    async with processes(cassandra_address, 1) as (queue,):
        assert isinstance(queue.engine, ClusterEngine)
        fifo, polls = queue.engine._fifo, 0

        async def poll() -> None:
            nonlocal polls
            polls += 1

        monkeypatch.setattr(fifo, "poll_all", poll)
        for _ in range(3 * fifo_engine.HINTED_STEPS):
            await fifo.poll_step(hinted=True)
        assert polls == 3
        await fifo.poll_step(hinted=False)
        assert polls == 4


async def test_statements_of_fifo_operations(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send is one row and one append. Other processes' commands are found by an append that fails, or by a read."""
    monkeypatch.setattr(fallback, "HEARTBEAT_MS", 3_600_000)  # statements of the background are not counted
    monkeypatch.setattr(known_queues, "GENERATION_AGE_MS_MAX", 3_600_000)
    clock = Clock()
    async with open_with_session(cassandra_address, "", clock) as (engine, cassandra):
        queue = QueueFixture(engine, clock, fifo=True)
        await queue.send(b"x", group="g")

        async def cost(work: asyncio.Future[Any]) -> int:
            before = asked(cassandra)
            await work
            return asked(cassandra) - before

        assert await cost(asyncio.ensure_future(queue.send(b"x", group="g"))) == 2
        assert await cost(asyncio.ensure_future(queue.take(10))) == 2  # one append, and one read of the bodies
        assert await cost(asyncio.ensure_future(queue.take(10))) == 1  # one read of the log
        many = asyncio.gather(*[queue.send(b"x", group=f"{number}") for number in range(50)])
        assert await cost(many) <= 50 + 3  # waiting commands are appended together
