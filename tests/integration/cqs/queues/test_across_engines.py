"""Dead letters and move tasks from a queue of one engine to a queue of another: sent first, then deleted, so that a
crash, a lost answer or an engine that is away repeats a message under its id and loses none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cqs.engines.contract import SPENT_HIDE_MS, Entry, Outcome, QueueRef, RejectedEntry, SentEntry
from cqs.redrive.mover import MOVE_LEASE_MS
from tests.integration.cqs.queues.move_task_fixture import MoveTaskFixture
from tests.integration.cqs.sqs import Sqs, WatchedEngine, another_process, open_beside


class FailingEngine(WatchedEngine):
    """Fails the next send or delete: before it is done, or by losing its answer."""

    fault = ""

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        self._fail("refuse_sends", StoreUnavailable("no send now"))
        sent = await super().send(q, entries, now_ms)
        self._fail("lose_sends", OutcomeUnknown("the answer is lost"))
        return sent

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        self._fail("refuse_deletes", StoreUnavailable("no delete now"))
        outcomes = await super().delete(q, handles, now_ms)
        self._fail("lose_deletes", OutcomeUnknown("the answer is lost"))
        return outcomes

    def _fail(self, fault: str, error: Exception) -> None:
        if self.fault == fault:
            self.fault = ""
            raise error


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
    async with open_beside(sqs, tmp_path, one=FailingEngine, two=FailingEngine) as (beside, (one, two)):
        assert isinstance(one, FailingEngine)
        assert isinstance(two, FailingEngine)
        yield Engines(beside, one, two)


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
    engines.two.fault = fault
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
    engines.one.fault = fault
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
    (engines.one if fault.endswith("sends") else engines.two).fault = fault
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
    less = another_process(sqs, sqs.service.move_tasks.store, one=engines.one)
    await less.send(of.source, "poison")
    with pytest.raises(StoreUnavailable, match="kept by the engine two, which is not running"):
        await less.receive(of.dead)
    with pytest.raises(StoreUnavailable, match="kept by the engine two, which is not running"):
        await less.queue("dead")
    assert await sqs.bodies(of.dead) == ["kept"]
