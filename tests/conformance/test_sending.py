"""Messages are received as they were sent, in the order in which they become visible, and survive a restart."""

from __future__ import annotations

import uuid

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Entry, Message, SentEntry
from tests.conformance.drivers import Driver
from tests.conformance.support import HIDE_MS, QueueFixture, bodies, numbered

BODIES = [b"", b"\x00", b"\xff" * 1_000, "grüße 👋".encode(), b"x" * 1_048_576]


@pytest.mark.parametrize("body", BODIES, ids=[f"{len(body)} bytes" for body in BODIES])
async def test_a_body_comes_back_as_it_was(standard: QueueFixture, body: bytes) -> None:
    await standard.send(body)
    assert (await standard.take_one()).body == body


@pytest.mark.every_engine
async def test_the_fields_of_a_received_message(standard: QueueFixture) -> None:
    entry = standard.entry(b"one", age_ms=5_000)
    (sent,) = await standard.send_entries([entry])
    assert isinstance(sent, SentEntry)
    assert not sent.duplicate
    message = await standard.take_one()
    assert message == Message(
        entry.id, message.handle, b"one", sent.sequence, 1, standard.now_ms, standard.now_ms - 5_000, ""
    )


async def test_a_later_delivery_is_counted_and_keeps_the_rest(standard: QueueFixture) -> None:
    await standard.send(b"one")
    first = await standard.take_one()
    standard.advance(HIDE_MS)
    second = await standard.take_one()
    assert second.handle != first.handle
    assert (second.deliveries, second.first_received_ms) == (2, first.first_received_ms)
    assert (second.id, second.sequence, second.born_at_ms) == (first.id, first.sequence, first.born_at_ms)


async def test_deliveries_of_a_moved_message_are_counted_on(standard: QueueFixture) -> None:
    entry = Entry(str(uuid.uuid4()), b"moved", standard.now_ms, standard.now_ms, "", "", 4, standard.now_ms - 9_000)
    await standard.send_entries([entry])
    message = await standard.take_one()
    assert (message.deliveries, message.first_received_ms) == (5, standard.now_ms - 9_000)


async def test_one_id_may_be_sent_twice(standard: QueueFixture) -> None:
    """Without a deduplication key an id can be sent again: it is for the caller's use only."""
    entry = standard.entry(b"again")
    await standard.send_entries([entry, entry])
    assert [message.id for message in await standard.take()] == [entry.id] * 2


async def test_an_empty_queue_gives_nothing(standard: QueueFixture) -> None:
    received = await standard.receive()
    assert (received.messages, received.spent, received.limit_reached, received.dropped) == ((), (), False, False)


async def test_sending_nothing_does_nothing(standard: QueueFixture) -> None:
    assert await standard.send_entries([]) == []
    assert not await standard.peek_all()


@pytest.mark.parametrize("want", [1, 2, 7, 10])
async def test_a_receive_gives_as_many_as_are_wanted_and_there(standard: QueueFixture, want: int) -> None:
    await standard.send(*numbered(7))
    assert len(await standard.take(want)) == min(want, 7)


@pytest.mark.spec("receive.standard-order")
@pytest.mark.every_engine
async def test_messages_come_in_the_order_they_became_visible(standard: QueueFixture) -> None:
    for body in numbered(25):
        await standard.send(body)
        standard.advance(1)
    assert bodies(await standard.drain()) == numbered(25)


@pytest.mark.spec("receive.again-and-again", "receive.standard-order")
async def test_a_message_that_returns_goes_behind_visible_ones(standard: QueueFixture) -> None:
    await standard.send(b"returning")
    await standard.take_one(hide_ms=1_000)
    standard.advance(500)
    await standard.send(b"waiting")
    standard.advance(500)
    assert bodies(await standard.take()) == [b"waiting", b"returning"]


async def test_sequences_rise(standard: QueueFixture) -> None:
    sent = await standard.send(*numbered(5)) + await standard.send(*numbered(5))
    sequences = [one.sequence for one in sent]
    assert sequences == sorted(set(sequences))


async def test_queues_are_separate(standard: QueueFixture, clock: Clock) -> None:
    other = QueueFixture(standard.engine, clock)
    await standard.send(b"mine")
    assert not await other.take()
    assert bodies(await standard.take()) == [b"mine"]


@pytest.mark.every_engine
async def test_a_restart_keeps_sends_and_deletes(standard: QueueFixture, driver: Driver) -> None:
    sent = await standard.send(*numbered(20))
    await standard.delete(*(await standard.take(5)))
    queue = await driver.restart(standard)
    assert bodies(await queue.drain()) == numbered(20)[5:]
    if not queue.continues_sequence:
        queue.advance(1)  # processes without a common counter number messages by time
    (after,) = await queue.send(b"after")
    assert after.sequence > max(one.sequence for one in sent)
