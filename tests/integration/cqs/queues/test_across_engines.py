"""Dead letters and move tasks from a queue of one engine to a queue of another: sent first, then deleted, so that a
crash, a lost answer or an engine that is away repeats a message under its id and loses none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.sqlite.database import Database
from cqs.engines.contract import SPENT_HIDE_MS, Entry, Outcome, QueueRef, RejectedEntry, SentEntry
from cqs.messages.receipt_handle import KEY_BYTES
from cqs.redrive.mover import MOVE_LEASE_MS
from cqs.service import QueueService
from cqs.stores.embedded.move_tasks import EmbeddedMoveTaskStore
from tests.integration.cqs.queues.move_task_fixture import MoveTaskFixture
from tests.integration.cqs.sqs import Sqs, WatchedEngine


class FailingEngine(WatchedEngine):
    """Fails the next sends or deletes: before they are done, or by losing their answer."""

    refuse_sends = 0
    refuse_deletes = 0
    lose_sends = 0
    lose_deletes = 0

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        if self.refuse_sends:
            self.refuse_sends -= 1
            raise StoreUnavailable("no send now")
        sent = await super().send(q, entries, now_ms)
        if self.lose_sends:
            self.lose_sends -= 1
            raise OutcomeUnknown("the answer is lost")
        return sent

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        if self.refuse_deletes:
            self.refuse_deletes -= 1
            raise StoreUnavailable("no delete now")
        outcomes = await super().delete(q, handles, now_ms)
        if self.lose_deletes:
            self.lose_deletes -= 1
            raise OutcomeUnknown("the answer is lost")
        return outcomes


@dataclass
class Engines:
    sqs: Sqs
    one: FailingEngine
    two: FailingEngine

    async def pair(self, suffix: str = "") -> MoveTaskFixture:
        """A queue of the engine `one` whose dead-letter queue is of the engine `two`."""
        ids = {"ContentBasedDeduplication": "true"} if suffix else {}
        dead = await self.sqs.queue(f"dead{suffix}", Engine="two", **ids)
        other = await self.sqs.queue(f"other{suffix}", Engine="one", **ids)
        policy = f'{{"deadLetterTargetArn":"{await self.sqs.arn(dead)}","maxReceiveCount":1}}'
        source = await self.sqs.queue(f"source{suffix}", Engine="one", RedrivePolicy=policy, **ids)
        return MoveTaskFixture(self.sqs, source, dead, other)

    async def spend(self, source: str, *texts: str) -> None:
        for text in texts:
            await self.sqs.send(source, text)
        assert len(await self.sqs.receive(source, VisibilityTimeout=0)) == len(texts)


@pytest.fixture
async def engines(sqs: Sqs, tmp_path: Path) -> AsyncIterator[Engines]:
    databases = [Database(tmp_path / name, sqs.clock) for name in ("one", "two")]
    one, two = [FailingEngine(database, sqs.clock) for database in databases]
    moves = EmbeddedMoveTaskStore(databases[0])
    for database in databases:
        database.start(asyncio.get_running_loop())
    running = {"embedded": sqs.engine, "one": one, "two": two}
    service = QueueService(sqs.store, moves, running, sqs.clock, receipt_key=bytes(KEY_BYTES))
    yield Engines(Sqs(service, sqs.clock, sqs.store, one), one, two)
    for database in databases:
        await database.close()


async def test_a_dead_letter_keeps_its_identity(engines: Engines) -> None:
    of, sqs = await engines.pair(), engines.sqs
    await sqs.send(of.source, "poison", MessageGroupId="tenant")
    (before,) = await sqs.receive(of.source, VisibilityTimeout=0, AttributeNames=["All"])
    assert await sqs.receive(of.source) == []
    (after,) = await sqs.receive(of.dead, AttributeNames=["All"])
    assert (after["MessageId"], after["Body"]) == (before["MessageId"], "poison")
    kept = ("SentTimestamp", "ApproximateFirstReceiveTimestamp", "MessageGroupId", "SenderId")
    assert [after["Attributes"][name] for name in kept] == [before["Attributes"][name] for name in kept]
    assert after["Attributes"]["ApproximateReceiveCount"] == "2"
    assert after["Attributes"]["DeadLetterQueueSourceArn"] == await sqs.arn(of.source)
    assert await sqs.counts(of.source) == (0, 0, 0)


async def test_order_within_a_group_goes_along(engines: Engines) -> None:
    of, sqs = await engines.pair(".fifo"), engines.sqs
    for text in "abc":
        await sqs.send(of.source, text, MessageGroupId="g")
    for _ in "abc":
        await sqs.receive(of.source, VisibilityTimeout=0)
    assert await sqs.receive(of.source) == []
    assert await sqs.bodies(of.dead, VisibilityTimeout=0) == ["a", "b", "c"]
    await of.start()
    task = await of.end()
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 3)
    assert await sqs.bodies(of.source) == ["a", "b", "c"]


@pytest.mark.parametrize("fault", ["refuse_sends", "lose_sends"])
async def test_a_send_that_fails_leaves_the_message(engines: Engines, fault: str) -> None:
    of, sqs = await engines.pair(), engines.sqs
    await engines.spend(of.source, "poison")
    setattr(engines.two, fault, 1)
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        await sqs.receive(of.source)
    arrived = await sqs.bodies(of.dead, VisibilityTimeout=0)
    assert arrived == (["poison"] if fault == "lose_sends" else [])
    assert (await sqs.counts(of.source))[1] == 1
    sqs.advance(SPENT_HIDE_MS / 1_000)
    assert await sqs.receive(of.source) == []
    dead = await sqs.receive(of.dead)
    assert {one["Body"] for one in dead} == {"poison"}
    assert len(dead) == 1 + len(arrived)
    assert len({one["MessageId"] for one in dead}) == 1
    assert await sqs.counts(of.source) == (0, 0, 0)


@pytest.mark.parametrize("fault", ["refuse_deletes", "lose_deletes"])
async def test_a_delete_that_fails_repeats_the_message_under_its_id(engines: Engines, fault: str) -> None:
    of, sqs = await engines.pair(), engines.sqs
    await engines.spend(of.source, "poison")
    setattr(engines.one, fault, 1)
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        await sqs.receive(of.source)
    sqs.advance(SPENT_HIDE_MS / 1_000)
    assert await sqs.receive(of.source) == []
    dead = await sqs.receive(of.dead)
    assert len(dead) == (2 if fault == "refuse_deletes" else 1)
    assert len({one["MessageId"] for one in dead}) == 1
    assert await sqs.counts(of.source) == (0, 0, 0)


async def test_a_queue_dropped_meanwhile_takes_nothing(engines: Engines) -> None:
    of, sqs = await engines.pair(), engines.sqs
    await engines.spend(of.source, "poison")
    dead = await sqs.service.cache.find(("000000000000", "us-east-1", "dead"))
    assert dead is not None
    await engines.two.drop(dead.ref, sqs.clock.now_ms())
    assert await sqs.receive(of.source) == []
    assert await sqs.counts(of.source) == (0, 1, 0)


@pytest.mark.parametrize("fault", ["refuse_sends", "lose_sends", "refuse_deletes", "lose_deletes"])
async def test_a_move_task_goes_on_after_a_fault(engines: Engines, fault: str) -> None:
    """Its worker dies; another repeats what was under way when the lease ends."""
    of, sqs = await engines.pair(), engines.sqs
    await engines.spend(of.source, "a", "b")
    assert await sqs.receive(of.source) == []
    await of.start()
    (task,) = await of.tasks.newest(await sqs.arn(of.dead), 1)
    setattr(engines.one if fault.endswith("sends") else engines.two, fault, 1)
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        await of.mover.step(await of.mover.begin(task), 10)
    sqs.advance(MOVE_LEASE_MS / 1_000)
    again = await of.mover.step(await of.mover.begin(task), 10)
    assert again.taken == (0 if fault == "lose_deletes" else 2)
    back = await sqs.receive(of.source)
    repeated = fault in ("lose_sends", "refuse_deletes")
    assert sorted(one["Body"] for one in back) == sorted("ab" * (2 if repeated else 1))
    assert len({one["MessageId"] for one in back}) == 2
    assert await sqs.counts(of.dead) == (0, 0, 0)


async def test_an_engine_that_is_away_keeps_its_queues(engines: Engines) -> None:
    """Only queues of the engine answer that they cannot be reached; nothing of them is lost."""
    of, sqs = await engines.pair(), engines.sqs
    await sqs.send(of.dead, "kept")
    without = {"embedded": sqs.engine, "one": engines.one}
    moves = sqs.service.move_tasks.store
    service = QueueService(sqs.store, moves, without, sqs.clock, receipt_key=bytes(KEY_BYTES))
    less = Sqs(service, sqs.clock, sqs.store, engines.one)
    await less.send(of.source, "poison")
    with pytest.raises(StoreUnavailable, match="kept by the engine two, which is not running"):
        await less.receive(of.dead)
    with pytest.raises(StoreUnavailable, match="kept by the engine two, which is not running"):
        await less.queue("dead")
    assert await sqs.bodies(of.dead) == ["kept"]
