"""A message older than the queue's retention period is not received; younger messages are."""

from __future__ import annotations

import msgspec
import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Engine
from tests.conformance.support import DONE, HIDE_MS, QueueFixture, bodies, numbered


@pytest.fixture
def queue(engine: Engine, clock: Clock, fifo_queue: bool) -> QueueFixture:
    return QueueFixture(engine, clock, fifo=fifo_queue, retention_ms=60_000)


@pytest.mark.spec("receive.retention")
async def test_a_message_is_received_until_the_end_of_its_retention(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    queue.advance(59_999)
    assert bodies(await queue.take(hide_ms=0)) == [b"one"]
    queue.advance(1)
    assert not await queue.take()


async def test_age_counts_from_the_first_send(queue: QueueFixture) -> None:
    """Messages in a standard dead-letter queue keep their age."""
    await queue.send(b"old", group="g", age_ms=59_999)
    await queue.send(b"too old", group="h", age_ms=60_000)
    await queue.send(b"new", group="i")
    assert sorted(bodies(await queue.take())) == [b"new", b"old"]


@pytest.mark.spec("receive.retention")
async def test_a_message_in_flight_does_not_come_back_past_its_retention(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    await queue.take_one(hide_ms=60_000)
    queue.advance(60_000)
    assert not await queue.take()


async def test_a_message_in_flight_past_its_retention_can_be_deleted(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one(hide_ms=120_000)
    queue.advance(60_001)
    await queue.delete(message)
    queue.advance(120_000)
    assert not await queue.take()
    assert not await queue.peek_all()


async def test_a_longer_retention_applies_to_existing_messages(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    queue.set(retention_ms=120_000)
    queue.advance(119_999)
    assert bodies(await queue.take(hide_ms=0)) == [b"one"]
    queue.advance(1)
    assert not await queue.take()


async def test_a_shorter_retention_applies_to_existing_messages(queue: QueueFixture) -> None:
    await queue.send(b"old", group="g")
    queue.advance(30_000)
    await queue.send(b"new", group="g")
    queue.set(retention_ms=20_000)
    assert bodies(await queue.take()) == [b"new"]


@pytest.mark.parametrize("old", [1, 9, 10, 25, 300])
async def test_new_messages_are_reached_behind_any_number_of_old_ones(queue: QueueFixture, old: int) -> None:
    await queue.send(*numbered(old), group="g")
    queue.advance(60_000)
    await queue.send(b"new", group="g")
    assert bodies(await queue.take(1)) == [b"new"]


async def test_new_groups_are_reached_behind_old_ones(queue: QueueFixture) -> None:
    for i in range(25):
        await queue.send(b"old", group=f"old {i}")
    queue.advance(60_000)
    await queue.send(b"new", group="new")
    assert bodies(await queue.take(1)) == [b"new"]


@pytest.mark.needs(fifo=True)
async def test_when_the_first_of_a_group_expires_the_next_is_the_first(fifo: QueueFixture) -> None:
    fifo.set(retention_ms=60_000)
    await fifo.send(b"first", group="g", delay_ms=0)
    fifo.advance(30_000)
    await fifo.send(b"second", b"third", group="g")
    fifo.advance(30_000)
    (message,) = await fifo.take(1)
    assert message.body == b"second"
    assert not await fifo.take()
    assert await fifo.delete(message) == [DONE]
    assert bodies(await fifo.take()) == [b"third"]


@pytest.mark.needs(fifo=True)
async def test_old_messages_in_the_midst_of_a_group_are_left_out(fifo: QueueFixture) -> None:
    fifo.set(retention_ms=60_000)
    for body, age_ms in ((b"1", 0), (b"2", 50_000), (b"3", 0), (b"4", 50_000), (b"5", 0)):
        await fifo.send(body, group="g", age_ms=age_ms)
    fifo.advance(10_000)
    assert bodies(await fifo.take()) == [b"1", b"3", b"5"]


async def test_expired_messages_are_not_counted_after_a_receive(queue: QueueFixture) -> None:
    await queue.send(*numbered(5), group="g")
    await queue.take(2, HIDE_MS)
    queue.advance(60_000)
    await queue.send(b"new", group="h")
    assert len(await queue.drain()) == 1
    assert await queue.counts() == (0, 1, 0)
    assert bodies(await queue.peek_all()) == [b"new"]


# -- audited queues ---------------------------------------------------------------------------------------------------


async def recorded(queue: QueueFixture) -> list[tuple[str, str]]:
    """(id, group) of the queue's expired messages, of which the records are then forgotten."""
    ours = [one for one in await queue.engine.expired(1_000) if one.audit == queue.q.audit]
    await queue.engine.forget_expired(ours)
    assert not [one for one in await queue.engine.expired(1_000) if one.audit == queue.q.audit]
    return sorted((one.id, one.group) for one in ours)


@pytest.fixture
def audited(queue: QueueFixture) -> QueueFixture:
    queue.q = msgspec.structs.replace(queue.q, audit=f"arn of {queue.q.id}")
    return queue


@pytest.mark.every_engine
@pytest.mark.differs_by_engine
async def test_expired_messages_of_an_audited_queue_are_recorded(audited: QueueFixture) -> None:
    """By the receive or the maintenance that removes them, each once."""
    sent = [*await audited.send(*numbered(12), group="g"), *await audited.send(*numbered(3), group="h")]
    received = await audited.take_one(hide_ms=1_000)
    await audited.delete(received)
    audited.advance(60_000)
    assert not await audited.take(5)
    await audited.engine.maintain(1_000, audited.now_ms)
    groups = {one.id: "g" if number < 12 else "h" for number, one in enumerate(sent)}
    del groups[received.id]
    assert await recorded(audited) == sorted(groups.items())


async def test_an_expired_message_behind_a_younger_one_is_recorded(audited: QueueFixture) -> None:
    """The clock of the younger one's sender may be ahead."""
    audited.set(retention_ms=60_000)
    await audited.send(b"young", group="g")
    (old,) = await audited.send(b"old", group="h", age_ms=50_000)
    audited.advance(10_000)
    assert bodies(await audited.take()) == [b"young"]
    await audited.engine.maintain(1_000, audited.now_ms)
    assert await recorded(audited) == [(old.id, "h")]


async def test_maintenance_records_what_no_receive_met(audited: QueueFixture) -> None:
    sent = await audited.send(*numbered(250), group="g")
    audited.advance(60_000)
    await audited.engine.maintain(1_000, audited.now_ms)
    assert [message_id for message_id, _ in await recorded(audited)] == sorted(one.id for one in sent)


async def test_other_queues_and_other_ends_are_not_recorded(queue: QueueFixture) -> None:
    before = await queue.engine.expired(1_000)
    await queue.send(b"expires", group="g")
    queue.advance(60_000)
    assert not await queue.take()
    queue.q = msgspec.structs.replace(queue.q, audit="audited since")
    await queue.send(b"deleted", b"purged", group="g")
    await queue.delete(await queue.take_one())
    await queue.engine.purge(queue.q, queue.now_ms)
    queue.advance(60_000)
    await queue.engine.maintain(1_000, queue.now_ms)
    assert await queue.engine.expired(1_000) == before
