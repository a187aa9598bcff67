"""A delivered message is hidden for exactly its visibility timeout, whatever happens to it meanwhile."""

from __future__ import annotations

import pytest

from cqs.engines.contract import Change
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, HIDE_MS, QueueFixture, bodies, numbered


@pytest.mark.parametrize("hide_ms", [1, 999, 30_000, 43_200_000])
async def test_hidden_until_the_last_millisecond(queue: QueueFixture, hide_ms: int) -> None:
    await queue.send(b"one", group="g")
    await queue.take_one(hide_ms)
    queue.advance(hide_ms - 1)
    assert not await queue.take()
    queue.advance(1)
    assert bodies(await queue.take()) == [b"one"]


async def test_without_a_timeout_a_message_is_not_hidden_but_counted(standard: QueueFixture) -> None:
    await standard.send(b"one")
    deliveries = [await standard.take_one(hide_ms=0) for _ in range(3)]
    assert [message.deliveries for message in deliveries] == [1, 2, 3]
    assert len({message.handle for message in deliveries}) == 3
    assert await standard.counts() == (1, 0, 0)


async def test_one_receive_gives_a_message_once_even_when_it_is_not_hidden(standard: QueueFixture) -> None:
    await standard.send(b"one", b"two")
    assert sorted(bodies(await standard.take(10, hide_ms=0))) == [b"one", b"two"]


@pytest.mark.spec("visibility.from-the-call")
@pytest.mark.parametrize(("before_ms", "after_ms"), [(30_000, 60_000), (30_000, 1_000), (1_000, 43_200_000)])
async def test_a_change_counts_from_the_call_and_replaces(
    standard: QueueFixture, before_ms: int, after_ms: int
) -> None:
    await standard.send(b"one")
    message = await standard.take_one(before_ms)
    standard.advance(500)
    assert await standard.hide(message, after_ms) == DONE
    standard.advance(after_ms - 1)
    assert not await standard.take()
    standard.advance(1)
    assert len(await standard.take()) == 1


@pytest.mark.spec("visibility.zero")
async def test_a_change_to_nothing_gives_the_message_back(standard: QueueFixture) -> None:
    await standard.send(b"one")
    message = await standard.take_one()
    assert await standard.hide(message, 0) == DONE
    assert (await standard.take_one()).deliveries == 2


@pytest.mark.spec("visibility.not-remembered")
async def test_a_change_is_not_remembered_for_the_next_receive(standard: QueueFixture) -> None:
    await standard.send(b"one")
    await standard.hide(await standard.take_one(1_000), 60_000)
    standard.advance(60_000)
    await standard.take_one(1_000)
    standard.advance(1_000)
    assert len(await standard.take()) == 1


@pytest.mark.spec("visibility.hides-again")
async def test_a_standard_message_visible_again_can_be_hidden_by_its_last_handle(standard: QueueFixture) -> None:
    await standard.send(b"one")
    message = await standard.take_one(1_000)
    standard.advance(5_000)
    assert await standard.hide(message, 10_000) == DONE
    assert not await standard.take()
    assert await standard.counts() == (0, 1, 0)
    standard.advance(10_000)
    assert (await standard.take_one()).deliveries == 2


async def test_changes_of_one_call_are_answered_one_by_one(standard: QueueFixture) -> None:
    await standard.send(*numbered(3))
    messages = await standard.take()
    changes = [Change(message.handle, standard.now_ms + 1_000 * i) for i, message in enumerate(messages)]
    assert await standard.engine.change(standard.q, changes, standard.now_ms) == [DONE] * 3
    assert bodies(await standard.take(1, hide_ms=HIDE_MS)) == [messages[0].body]
    standard.advance(1_000)
    assert bodies(await standard.take()) == [messages[1].body]


async def test_messages_hidden_for_different_times_return_each_at_its_own(standard: QueueFixture) -> None:
    await standard.send(*numbered(5))
    for i in range(5):
        await standard.take_one(hide_ms=1_000 * (5 - i))
    for i in range(5):
        standard.advance(1_000)
        assert bodies(await standard.take(hide_ms=60_000)) == [b"%06d" % (4 - i)]


@pytest.mark.parametrize("known", ["visibility", "delay"])
async def test_an_empty_receive_does_not_promise_too_late(standard: QueueFixture, known: str) -> None:
    if known == "delay":
        await standard.send(b"one", delay_ms=7_000)
    else:
        await standard.send(b"one")
        await standard.take_one(7_000)
    next_due_ms = (await standard.receive()).next_due_ms
    assert next_due_ms is None or next_due_ms <= standard.now_ms + 7_000


@pytest.mark.needs(keeps_leases=True)
async def test_a_change_survives_a_restart(standard: QueueFixture, driver: Driver) -> None:
    await standard.send(b"one")
    await standard.hide(await standard.take_one(), 100_000)
    queue = await driver.restart(standard)
    queue.advance(99_999)
    assert not await queue.take()
    queue.advance(1)
    assert len(await queue.take()) == 1
