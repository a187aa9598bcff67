"""A handle names one delivery of one message: what it can do after that delivery's end, or after a newer delivery."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cns_common.clock import Clock
from cqs.engines.contract import Change, Entry, Message, Settlement
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, EXPIRED, GONE, HIDE_MS, MALFORMED, STALE, QueueFixture, bodies, numbered


async def test_a_deleted_message_is_gone(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    assert await queue.delete(message) == [DONE]
    assert await queue.delete(message) == [GONE]
    assert await queue.hide(message, 1_000) == GONE
    queue.advance(HIDE_MS)
    assert not await queue.take()


async def test_a_handle_given_twice_in_one_call_deletes_once(queue: QueueFixture) -> None:
    await queue.send(b"one", b"two", group="g")
    one, two = await queue.take()
    assert await queue.delete(one, two, one) == [DONE, DONE, GONE]
    assert not await queue.peek_all()


@pytest.mark.every_engine
async def test_a_stale_handle_never_touches_a_newer_delivery(queue: QueueFixture) -> None:
    old, new = await twice(queue)
    assert await queue.delete(old) == [STALE]
    assert await queue.hide(old, 0) == STALE
    assert await queue.engine.change(queue.q, [Change(old.handle, None, b"other")], queue.now_ms) == [STALE]
    assert not await queue.take()
    assert await queue.delete(new) == [DONE]


async def test_stale_beside_current_in_one_call(queue: QueueFixture) -> None:
    old, new = await twice(queue)
    outcomes = await queue.delete(old, new)
    assert outcomes[1] is DONE
    assert outcomes[0] in (STALE, GONE)


async def test_a_delivery_without_a_timeout_makes_older_handles_stale(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    old = await queue.take_one(0)
    new = await queue.take_one(10_000)
    assert await queue.delete(old) == [STALE]
    assert await queue.delete(new) == [DONE]


# -- with older_handles -----------------------------------------------------------------------------------------------


@pytest.fixture
def lenient(standard: QueueFixture) -> QueueFixture:
    """A standard queue with the reference that tenants' calls use."""
    standard.q = replace(standard.q, older_handles=True)
    return standard


async def twice(queue: QueueFixture, hide_ms: int = HIDE_MS) -> tuple[Message, Message]:
    """A message's first delivery, and its second after the visibility timeout."""
    await queue.send(b"one", group="g")
    old = await queue.take_one(1_000)
    queue.advance(1_000)
    return old, await queue.take_one(hide_ms)


@pytest.mark.spec("handle.older-succeeds")
async def test_an_older_handle_deletes_a_message_in_flight_again(lenient: QueueFixture) -> None:
    old, new = await twice(lenient)
    assert await lenient.counts() == (0, 1, 0)
    assert await lenient.delete(old) == [DONE]
    assert await lenient.counts() == (0, 0, 0)
    assert await lenient.delete(old, new) == [GONE, GONE]
    assert await lenient.hide(new, 0) == GONE
    lenient.advance(HIDE_MS)
    assert not await lenient.take()
    assert await lenient.counts() == (0, 0, 0)


async def test_an_older_handle_deletes_a_visible_message(lenient: QueueFixture) -> None:
    old, _ = await twice(lenient, 2_000)
    lenient.advance(2_000)
    assert await lenient.counts() == (1, 0, 0)
    assert await lenient.delete(old) == [DONE]
    assert await lenient.counts() == (0, 0, 0)


@pytest.mark.spec("handle.older-succeeds")
@pytest.mark.every_engine
async def test_an_older_handle_changes_visibility(lenient: QueueFixture) -> None:
    old, new = await twice(lenient)
    assert await lenient.hide(old, 0) == DONE
    assert await lenient.counts() == (1, 0, 0)
    newest = await lenient.take_one()
    for handle, ms in ((old, 5_000), (new, 7_000), (newest, 9_000), (old, 3_000)):
        assert await lenient.hide(handle, ms) == DONE
        assert await lenient.counts() == (0, 1, 0)
    lenient.advance(2_999)
    assert not await lenient.take()
    lenient.advance(1)
    assert bodies(await lenient.take()) == [b"one"]


async def test_handles_of_all_deliveries_in_one_call_delete_once(lenient: QueueFixture) -> None:
    old, new = await twice(lenient)
    await lenient.send(b"two")
    assert sorted(await lenient.delete(old, new)) == [DONE, GONE]
    assert await lenient.counts() == (1, 0, 0)
    assert bodies(await lenient.take()) == [b"two"]


@pytest.mark.needs(update_body=True)
async def test_a_new_body_takes_the_newest_handle(lenient: QueueFixture) -> None:
    old, new = await twice(lenient)
    for visible_at_ms in (None, lenient.now_ms + 1_000):
        changes = [Change(old.handle, visible_at_ms, b"other")]
        assert await lenient.engine.change(lenient.q, changes, lenient.now_ms) == [STALE]
    assert await lenient.hide(new, 0) == DONE
    assert (await lenient.take_one()).body == b"one"


async def test_without_the_option_older_handles_are_stale(standard: QueueFixture) -> None:
    """This fences jobs: a worker whose lease ended cannot settle a job that another works on."""
    old, new = await twice(standard)
    settled = await standard.engine.settle(
        Settlement(deletes=((standard.q, old.handle),), changes=((standard.q, Change(old.handle, 0)),)),
        standard.now_ms,
    )
    assert (settled.deletes, settled.changes) == ((STALE,), (STALE,))
    assert await standard.counts() == (0, 1, 0)
    assert await standard.delete(new) == [DONE]


@pytest.mark.every_engine
async def test_a_moved_message_is_out_of_reach_of_its_old_handles(lenient: QueueFixture, clock: Clock) -> None:
    old, new = await twice(lenient)
    dead = QueueFixture(lenient.engine, clock)
    dead.q = replace(dead.q, older_handles=True)
    moved = Entry(new.id, new.body, new.born_at_ms, lenient.now_ms, "", "", new.deliveries, new.first_received_ms)
    settlement = Settlement(deletes=((lenient.q, new.handle),), sends=((dead.q, moved),))
    assert (await lenient.engine.settle(settlement, lenient.now_ms)).deletes == (DONE,)
    for queue in (lenient, dead):
        assert await queue.delete(old, new) == [GONE, GONE]
        assert await queue.hide(old, 0) == GONE
    assert await dead.counts() == (1, 0, 0)
    assert bodies(await dead.take()) == [b"one"]


async def test_an_older_handle_is_valid_after_restarts(lenient: QueueFixture, driver: Driver) -> None:
    old, _ = await twice(lenient)
    queue = await driver.restart(lenient)
    queue.advance(HIDE_MS)
    newest = await queue.take_one()
    assert await queue.hide(old, HIDE_MS) == DONE
    assert await queue.counts() == (0, 1, 0)
    assert await queue.delete(old) == [DONE]
    assert await queue.delete(newest) == [GONE]
    assert await queue.counts() == (0, 0, 0)


@pytest.mark.needs(fifo=True)
async def test_a_fifo_queue_takes_the_newest_handle_alone(fifo: QueueFixture) -> None:
    fifo.q = replace(fifo.q, older_handles=True)
    old, new = await twice(fifo)
    assert await fifo.delete(old) == [STALE]
    assert await fifo.hide(old, 0) == STALE
    assert await fifo.delete(new) == [DONE]


# -- other handles ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("handle.old-deletes")
async def test_an_old_handle_deletes_while_no_newer_delivery_was_made(standard: QueueFixture) -> None:
    await standard.send(b"one")
    message = await standard.take_one(1_000)
    standard.advance(3_600_000)
    assert await standard.delete(message) == [DONE]
    assert not await standard.take()


@pytest.mark.needs(fifo=True)
async def test_a_fifo_handle_ends_with_its_visibility_timeout(fifo: QueueFixture) -> None:
    await fifo.send(b"one", group="g")
    message = await fifo.take_one(1_000)
    fifo.advance(999)
    assert await fifo.hide(message, 1_000) == DONE
    fifo.advance(1_000)
    assert await fifo.delete(message) == [EXPIRED]
    assert await fifo.hide(message, 1_000) == EXPIRED
    assert bodies(await fifo.take()) == [b"one"]


@pytest.mark.parametrize("handle", [b"", b"x", b"\x00" * 15, b"\xff" * 16, b"x" * 1_024], ids=len)
async def test_an_invalid_handle_does_nothing(queue: QueueFixture, handle: bytes) -> None:
    await queue.send(b"one", group="g")
    assert await queue.engine.delete(queue.q, [handle], queue.now_ms) == [MALFORMED]
    assert await queue.engine.change(queue.q, [Change(handle, queue.now_ms)], queue.now_ms) == [MALFORMED]
    assert bodies(await queue.take()) == [b"one"]


async def test_an_invalid_handle_does_not_fail_other_entries(queue: QueueFixture) -> None:
    await queue.send(b"one", b"two", group="g")
    one, two = await queue.take()
    handles = [one.handle, b"junk", two.handle]
    assert await queue.engine.delete(queue.q, handles, queue.now_ms) == [DONE, MALFORMED, DONE]


async def test_another_queues_handle_does_nothing(queue: QueueFixture, clock: Clock, fifo_queue: bool) -> None:
    other = QueueFixture(queue.engine, clock, fifo=fifo_queue)
    await queue.send(b"mine", group="g")
    await other.send(b"other", group="g")
    message = await queue.take_one()
    assert await other.delete(message) == [GONE]
    assert await other.hide(message, 0) == GONE
    assert await queue.counts() == (0, 1, 0)
    assert await other.counts() == (1, 0, 0)
    assert await queue.delete(message) == [DONE]


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("end", ["purge", "drop"])
async def test_handles_of_before_a_purge_or_drop_do_nothing(queue: QueueFixture, end: str, older: bool) -> None:
    queue.q = replace(queue.q, older_handles=older)
    handles = await twice(queue)
    await (queue.purge() if end == "purge" else queue.drop())
    await queue.send_entries([queue.entry(b"after", group="g")])
    assert await queue.delete(*handles) == [GONE, GONE]
    assert await queue.hide(handles[1], 0) == GONE
    assert bodies(await queue.take()) == ([b"after"] if end == "purge" else [])


@pytest.mark.needs(keeps_leases=True)
async def test_handles_are_valid_after_a_restart(queue: QueueFixture, driver: Driver) -> None:
    await queue.send(*numbered(3), group="g")
    stale = (await queue.take(3, 1_000))[2]
    queue.advance(1_000)
    one, two, _ = await queue.take(3)
    queue = await driver.restart(queue)
    assert await queue.delete(stale, one) == [STALE, DONE]
    assert await queue.hide(two, 0) == DONE
    again = await queue.take_one()
    assert again.body == two.body
    assert await queue.delete(two) == [STALE]
    assert await queue.delete(again) == [DONE]


async def test_handles_are_unique(standard: QueueFixture, driver: Driver) -> None:
    seen: set[bytes] = set()
    for _ in range(3):
        await standard.send(b"one")
        for _ in range(5):
            handles = {message.handle for message in await standard.take(hide_ms=0)}
            assert not handles & seen
            seen |= handles
        standard = await driver.restart(standard)
