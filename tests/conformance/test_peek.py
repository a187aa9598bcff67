"""A peek shows each message once, in any state, and changes nothing."""

from __future__ import annotations

import pytest

from tests.conformance.support import QueueFixture, bodies, numbered


async def _of_every_state(queue: QueueFixture) -> list[bytes]:
    """Fill a queue. Returns the bodies, soonest due first."""
    await queue.send(*numbered(6, b"taken"), group="taken")
    await queue.take(6, hide_ms=20_000)
    await queue.send(*numbered(5, b"delayed"), group="delayed", delay_ms=40_000)
    await queue.send(*numbered(7, b"visible"), group="visible")
    return numbered(7, b"visible") + numbered(6, b"taken") + numbered(5, b"delayed")


async def test_an_empty_queue(queue: QueueFixture) -> None:
    page = await queue.engine.peek(queue.q, "", 10, queue.now_ms)
    assert (page.messages, page.cursor) == ((), "")


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9, 17, 18, 19, 1_000])
async def test_pages_show_every_message_once(queue: QueueFixture, n: int) -> None:
    everything = await _of_every_state(queue)
    assert sorted(bodies(await queue.peek_all(n))) == sorted(everything)


async def test_soonest_due_first(standard: QueueFixture) -> None:
    everything = await _of_every_state(standard)
    assert bodies(await standard.peek_all(4)) == everything


async def test_messages_behind_others_of_their_group_come_last(fifo: QueueFixture) -> None:
    await _of_every_state(fifo)
    shown = bodies(await fifo.peek_all(4))
    assert shown[:3] == [b"visible000000", b"taken000000", b"delayed000000"]


async def test_what_is_shown(queue: QueueFixture) -> None:
    entry = queue.entry(b"one", group="g", delay_ms=5_000, age_ms=1_000)
    (sent,) = await queue.send_entries([entry])
    (peeked,) = await queue.peek_all()
    assert (peeked.id, peeked.body, peeked.group) == (entry.id, b"one", "g")
    assert (peeked.born_at_ms, peeked.visible_at_ms) == (entry.born_at_ms, entry.visible_at_ms)
    assert (peeked.deliveries, peeked.first_received_ms) == (0, 0)
    assert peeked.sequence == getattr(sent, "sequence", None)


async def test_deliveries_are_shown(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one(5_000)
    await queue.hide(message, 7_000)
    await queue.counts()  # waits for the commit: a peek shows committed changes only, and neither call above waits
    (peeked,) = await queue.peek_all()
    assert (peeked.deliveries, peeked.first_received_ms) == (1, queue.now_ms)
    assert peeked.visible_at_ms == queue.now_ms + 7_000


async def test_a_lease_is_shown_at_once(queue: QueueFixture) -> None:
    """Also where a lease is answered before it is durable."""
    for _ in range(20):
        await queue.send(b"m", group="g")
        message = await queue.take_one()
        assert [one.deliveries for one in await queue.peek_all()] == [1]
        await queue.delete(message)


async def test_a_peek_does_not_hide_messages(queue: QueueFixture) -> None:
    await queue.send(*numbered(3), group="g")
    await queue.peek_all()
    assert [message.deliveries for message in await queue.take()] == [1, 1, 1]


async def test_many_due_in_the_same_moment(standard: QueueFixture) -> None:
    await standard.send(*numbered(250))
    shown = bodies(await standard.peek_all(33))
    assert sorted(shown) == numbered(250)


async def test_a_delete_between_two_pages_skips_no_message(standard: QueueFixture) -> None:
    await standard.send(*numbered(20))
    page = await standard.engine.peek(standard.q, "", 10, standard.now_ms)
    await standard.delete(*await standard.take(10))
    rest = await standard.engine.peek(standard.q, page.cursor, 20, standard.now_ms)
    assert set(numbered(20)[10:]) <= set(bodies(rest.messages))
