"""A message delivered `max_receives` times is spent: the service gets it to move it, consumers do not (spec/sqs.md
9)."""

from __future__ import annotations

import msgspec
import pytest

from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cqs.engines.contract import SPENT_HIDE_MS, Engine, Entry, Message, QueueRef, SentEntry, Settlement
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, QueueFixture, bodies, numbered


@pytest.fixture
def queue(engine: Engine, clock: Clock, fifo_queue: bool) -> QueueFixture:
    return QueueFixture(engine, clock, fifo=fifo_queue, max_receives=2)


@pytest.fixture
def dead(queue: QueueFixture, clock: Clock, fifo_queue: bool) -> QueueFixture:
    """The dead-letter queue."""
    return QueueFixture(queue.engine, clock, fifo=fifo_queue)


async def _spend(queue: QueueFixture, *bodies_: bytes, group: str = "g") -> None:
    """Send a message and receive it until it is spent."""
    await queue.send(*bodies_, group=group)
    for _ in range(queue.q.max_receives):
        assert len(await queue.take(hide_ms=0)) == len(bodies_)


def _move(queue: QueueFixture, dead: QueueRef, *spent: Message) -> Settlement:
    now_ms = queue.now_ms
    entries = [
        Entry(one.id, one.body, one.born_at_ms, now_ms, one.group, "", one.deliveries, one.first_received_ms)
        for one in spent
    ]
    return Settlement(
        deletes=tuple([(queue.q, one.handle) for one in spent]), sends=tuple([(dead, entry) for entry in entries])
    )


@pytest.mark.parametrize("max_receives", [1, 2, 5])
async def test_a_message_is_received_max_receives_times(queue: QueueFixture, max_receives: int) -> None:
    queue.set(max_receives=max_receives)
    await queue.send(b"one", group="g")
    for delivery in range(1, max_receives + 1):
        received = await queue.receive(hide_ms=1_000)
        assert [message.deliveries for message in received.messages] == [delivery]
        assert not received.spent
        queue.advance(1_000)
    received = await queue.receive()
    assert not received.messages
    assert bodies(received.spent) == [b"one"]
    assert received.spent[0].deliveries == max_receives


async def test_without_a_limit_nothing_is_ever_spent(queue: QueueFixture) -> None:
    queue.set(max_receives=0)
    await queue.send(b"one", group="g")
    for delivery in range(1, 20):
        assert (await queue.take_one(0)).deliveries == delivery


async def test_nothing_is_spent_in_the_background(queue: QueueFixture) -> None:
    await _spend(queue, b"one")
    queue.advance(3_600_000)
    await queue.engine.maintain(1_000, queue.now_ms)
    assert await queue.counts() == (1, 0, 0)


async def test_a_later_limit_counts_earlier_receives(queue: QueueFixture) -> None:
    queue.set(max_receives=0)
    await queue.send(b"one", group="g")
    for _ in range(5):
        await queue.take_one(0)
    queue.set(max_receives=3)
    assert len((await queue.receive()).spent) == 1


@pytest.mark.every_engine
async def test_a_moved_message_is_unchanged(queue: QueueFixture, dead: QueueFixture) -> None:
    await _spend(queue, b"one")
    (spent,) = (await queue.receive()).spent
    settled = await queue.engine.settle(_move(queue, dead.q, spent), queue.now_ms)
    assert settled.deletes == (DONE,)
    assert isinstance(settled.sends[0], SentEntry)
    assert await queue.counts() == (0, 0, 0)
    moved = await dead.take_one()
    assert (moved.id, moved.body, moved.group) == (spent.id, b"one", "g")
    assert (moved.deliveries, moved.first_received_ms) == (3, spent.first_received_ms)
    assert moved.born_at_ms == spent.born_at_ms


async def test_a_message_being_moved_is_not_received(queue: QueueFixture) -> None:
    await _spend(queue, b"one")
    assert len((await queue.receive()).spent) == 1
    received = await queue.receive()
    assert (received.messages, received.spent) == ((), ())
    assert await queue.counts() == (0, 1, 0)


async def test_a_spent_message_not_moved_is_offered_again(queue: QueueFixture) -> None:
    await _spend(queue, b"one")
    (first,) = (await queue.receive()).spent
    queue.advance(SPENT_HIDE_MS - 1)
    assert not (await queue.receive()).spent
    queue.advance(1)
    (again,) = (await queue.receive()).spent
    assert (again.id, again.deliveries) == (first.id, first.deliveries)


async def test_a_spent_message_is_offered_again_after_a_crash(
    queue: QueueFixture, dead: QueueFixture, driver: Driver
) -> None:
    await _spend(queue, b"one")
    assert len((await queue.receive()).spent) == 1
    queue = await driver.restart(queue)
    queue.advance(SPENT_HIDE_MS)
    (spent,) = (await queue.receive()).spent
    await queue.engine.settle(_move(queue, dead.q, spent), queue.now_ms)
    assert (len(await queue.peek_all()), len(await dead.at(queue.engine).peek_all())) == (0, 1)


async def test_spent_and_others_in_one_receive(standard: QueueFixture) -> None:
    standard.set(max_receives=1)
    await _spend(standard, *numbered(3, b"spent"))
    await standard.send(*numbered(3, b"fresh"))
    received = await standard.receive(10)
    assert sorted(bodies(received.spent)) == numbered(3, b"spent")
    assert sorted(bodies(received.messages)) == numbered(3, b"fresh")


async def test_no_more_than_wanted_even_when_spent(queue: QueueFixture) -> None:
    for i in range(6):
        await queue.send(b"x", group=f"{i}")
    for _ in range(2):
        assert len(await queue.take(10, hide_ms=0)) == 6
    assert len((await queue.receive(4)).spent) == 4


async def test_a_fifo_group_waits_for_its_spent_message_others_go_on(fifo: QueueFixture, clock: Clock) -> None:
    fifo.set(max_receives=1)
    dead = QueueFixture(fifo.engine, clock, fifo=True)
    await _spend(fifo, b"spent", group="g")
    await fifo.send(b"behind", group="g")
    await fifo.send(b"other", group="h")
    received = await fifo.receive()
    assert bodies(received.spent) == [b"spent"]
    assert bodies(received.messages) == [b"other"]
    assert not await fifo.take()
    await fifo.engine.settle(_move(fifo, dead.q, *received.spent), fifo.now_ms)
    assert bodies(await fifo.take()) == [b"behind"]


async def test_a_spent_message_in_the_midst_of_a_group_ends_the_batch(fifo: QueueFixture) -> None:
    fifo.set(max_receives=2)
    await fifo.send(*numbered(3), group="g")
    first, second, _ = await fifo.take(3)
    await fifo.hide(second, 0)
    await fifo.hide(first, 0)
    first = await fifo.take_one(0)  # the others wait: the third is in flight
    fifo.advance(30_000)
    fifo.set(max_receives=0)
    for message in await fifo.take(2, hide_ms=0):
        assert message.deliveries > 1
    fifo.set(max_receives=3)
    received = await fifo.receive()
    assert bodies(received.spent) == numbered(1)
    assert not received.messages


async def test_a_move_to_a_dropped_queue_leaves_the_message(queue: QueueFixture, dead: QueueFixture) -> None:
    await dead.drop()
    await _spend(queue, b"one")
    (spent,) = (await queue.receive()).spent
    settled = await queue.engine.settle(_move(queue, dead.q, spent), queue.now_ms)
    assert not isinstance(settled.sends[0], SentEntry)
    assert len(await queue.peek_all()) == 1
    queue.advance(SPENT_HIDE_MS)
    assert len((await queue.receive()).spent) == 1


async def test_a_queue_may_be_its_own_dead_letter_queue(queue: QueueFixture) -> None:
    """AWS accepts this. The message keeps its count, so it is spent again at once, but must not be lost."""
    await _spend(queue, b"one")
    (spent,) = (await queue.receive()).spent
    await queue.engine.settle(_move(queue, queue.q, spent), queue.now_ms)
    assert [message.id for message in (await queue.receive()).spent] == [spent.id]


async def test_retention_of_a_moved_standard_message_counts_from_its_birth(
    standard: QueueFixture, clock: Clock
) -> None:
    standard.set(max_receives=1)
    dead = QueueFixture(standard.engine, clock, retention_ms=60_000)
    await _spend(standard, b"one")
    standard.advance(30_000)
    (spent,) = (await standard.receive()).spent
    await standard.engine.settle(_move(standard, dead.q, spent), standard.now_ms)
    dead.now_ms = standard.now_ms + 29_999
    assert len(await dead.take(hide_ms=0)) == 1
    dead.now_ms += 1
    assert not await dead.take()


async def test_the_moved_messages_own_deduplication(fifo: QueueFixture, clock: Clock) -> None:
    """In a FIFO dead-letter queue the deduplication key is the message id: a repeated move does not repeat the
    message."""
    fifo.set(max_receives=1)
    dead = QueueFixture(fifo.engine, clock, fifo=True, retention_ms=DAY_MS)
    await _spend(fifo, b"one")
    (spent,) = (await fifo.receive()).spent
    move = _move(fifo, dead.q, spent)
    keyed = msgspec.structs.replace(move.sends[0][1], dedup=spent.id)
    move = msgspec.structs.replace(move, sends=((dead.q, keyed),))
    await fifo.engine.settle(move, fifo.now_ms)
    again = await fifo.engine.settle(move, fifo.now_ms)
    assert isinstance(again.sends[0], SentEntry)
    assert again.sends[0].duplicate
    assert len(await dead.peek_all()) == 1
