"""A group's messages are received in order, and while one is in flight the others wait (spec/sqs.md 7.1)."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, HIDE_MS, QueueFixture, bodies, numbered

pytestmark = [pytest.mark.needs(fifo=True), pytest.mark.differs_by_engine]


@pytest.mark.spec("fifo.order-of-sends")
async def test_entries_of_one_send_keep_their_order(fifo: QueueFixture) -> None:
    for start in range(0, 30, 10):
        await fifo.send(*numbered(30)[start : start + 10], group="g")
    taken: list[bytes] = []
    while messages := await fifo.take(7):
        taken += bodies(messages)
        await fifo.delete(*messages)
    assert taken == numbered(30)


@pytest.mark.spec("fifo.one-group-first", "fifo.several-of-a-group")
async def test_a_batch_has_one_group_then_others(fifo: QueueFixture) -> None:
    for body in numbered(4):
        await fifo.send(b"a" + body, group="a")
        await fifo.send(b"b" + body, group="b")
    taken = await fifo.take(6)
    assert sorted(bodies(taken[:4])) == bodies(taken[:4])
    assert {message.group for message in taken[:4]} < {"a", "b"}
    assert len({message.group for message in taken}) == 2
    assert bodies(taken[4:]) == sorted(bodies(taken[4:]))


@pytest.mark.spec("fifo.group-lock", "fifo.other-groups", "fifo.send-keeps-lock")
async def test_other_groups_go_on_and_a_new_message_waits(fifo: QueueFixture) -> None:
    await fifo.send(b"1", group="taken")
    message = await fifo.take_one()
    await fifo.send(b"2", group="taken")
    await fifo.send(b"other", group="other")
    assert bodies(await fifo.take()) == [b"other"]
    await fifo.delete(message)
    assert bodies(await fifo.take()) == [b"2"]


@pytest.mark.spec("fifo.group-lock", "fifo.deleted-in-part", "fifo.deleted-all")
@pytest.mark.parametrize("first", [0, 1])
async def test_deleting_a_part_keeps_the_rest_locked(fifo: QueueFixture, first: int) -> None:
    await fifo.send(*numbered(4), group="g")
    taken = await fifo.take(2)
    assert not await fifo.take()
    assert await fifo.delete(taken[first]) == [DONE]
    assert not await fifo.take()
    assert await fifo.delete(taken[1 - first]) == [DONE]
    assert bodies(await fifo.take()) == numbered(4)[2:]


@pytest.mark.spec("fifo.unlocked-by-timeout", "fifo.redelivered-as-sent")
async def test_when_the_lock_expires_the_same_messages_come_again(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(4), group="g")
    before = await fifo.take(2)
    fifo.advance(HIDE_MS)
    after = await fifo.take(3)
    assert bodies(after) == numbered(3)
    for old, new in zip(before, after, strict=False):
        assert (new.id, new.sequence, new.born_at_ms) == (old.id, old.sequence, old.born_at_ms)
        assert new.first_received_ms == old.first_received_ms
    assert [message.deliveries for message in after] == [2, 2, 1]


@pytest.mark.spec("fifo.later-delayed")
async def test_a_later_delayed_message_does_not_hide_earlier_ones(fifo: QueueFixture) -> None:
    await fifo.send(b"1", group="g")
    await fifo.send(b"2", group="g", delay_ms=10_000)
    await fifo.send(b"3", group="g")
    (message,) = await fifo.take()
    assert message.body == b"1"
    await fifo.delete(message)
    assert not await fifo.take()
    fifo.advance(10_000)
    assert bodies(await fifo.take()) == [b"2", b"3"]


@pytest.mark.spec("fifo.earlier-delayed")
async def test_an_earlier_delayed_message_blocks_later_ones(fifo: QueueFixture) -> None:
    await fifo.send(b"1", group="g", delay_ms=10_000)
    await fifo.send(b"2", group="g")
    assert not await fifo.take()
    fifo.advance(10_000)
    assert bodies(await fifo.take()) == [b"1", b"2"]


@pytest.mark.spec("fifo.first-extended")
async def test_while_the_first_is_extended_none_of_the_others_comes(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    first = (await fifo.take(3, hide_ms=10_000))[0]
    await fifo.hide(first, 60_000)
    fifo.advance(10_000)
    assert not await fifo.take()
    fifo.advance(50_000)
    assert bodies(await fifo.take()) == numbered(3)


@pytest.mark.spec("fifo.second-extended")
async def test_messages_before_an_extended_one_come(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    second = (await fifo.take(3, hide_ms=10_000))[1]
    await fifo.hide(second, 60_000)
    fifo.advance(10_000)
    first = await fifo.take()
    assert bodies(first) == numbered(1)
    await fifo.delete(*first)
    assert not await fifo.take()
    fifo.advance(50_000)
    assert bodies(await fifo.take()) == numbered(3)[1:]


@pytest.mark.spec("fifo.given-back")
async def test_returning_the_first_makes_only_it_available(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    first, second, third = await fifo.take(3)
    await fifo.hide(first, 0)
    again = await fifo.take()
    assert bodies(again) == numbered(1)
    await fifo.hide(again[0], 0)
    await fifo.hide(third, 0)
    await fifo.hide(second, 0)
    assert bodies(await fifo.take()) == numbered(3)


async def test_a_returned_later_message_does_not_overtake(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    messages = await fifo.take(3)
    await fifo.hide(messages[2], 0)
    assert not await fifo.take()


@pytest.mark.spec("fifo.visibility-zero-locks-nothing")
async def test_without_a_timeout_nothing_is_locked(fifo: QueueFixture) -> None:
    await fifo.send(*numbered(3), group="g")
    assert bodies(await fifo.take(2, hide_ms=0)) == numbered(2)
    assert bodies(await fifo.take(3)) == numbered(3)


async def test_groups_are_in_the_queue_not_in_the_engine(fifo: QueueFixture, clock: Clock) -> None:
    other = QueueFixture(fifo.engine, clock, fifo=True)
    await fifo.send(b"mine", group="g")
    await other.send(b"other", group="g")
    await fifo.take()
    assert bodies(await other.take()) == [b"other"]


@pytest.mark.parametrize("group", ["g", "G", "g ", "0", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "x" * 128])
async def test_group_names_are_compared_exactly(fifo: QueueFixture, group: str) -> None:
    await fifo.send(b"1", group="g g")
    await fifo.send(b"2", group=group)
    (message,) = await fifo.take(1)
    assert bodies(await fifo.take()) == [b"2"]
    assert message.group == "g g"


async def test_the_lock_survives_a_restart(fifo: QueueFixture, driver: Driver) -> None:
    await fifo.send(*numbered(4), group="g")
    one, _ = await fifo.take(2)
    fifo = await driver.restart(fifo)
    assert not await fifo.take()
    assert await fifo.delete(one) == [DONE]
    assert not await fifo.take()
    fifo.advance(HIDE_MS)
    assert bodies(await fifo.take()) == numbered(4)[1:]
