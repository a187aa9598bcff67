"""A settlement does deletes, sends and changes on several queues: all of them or none."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Change, Engine, Outcome, RejectedEntry, SentEntry, Settlement, SettlementResult
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, GONE, MALFORMED, STALE, QueueFixture, bodies, numbered

pytestmark = pytest.mark.differs_by_engine


@pytest.fixture
def other(queue: QueueFixture, clock: Clock) -> QueueFixture:
    return QueueFixture(queue.engine, clock)


async def _settle(queue: QueueFixture, settlement: Settlement) -> SettlementResult:
    return await queue.engine.settle(settlement, queue.now_ms)


async def test_nothing_to_settle(queue: QueueFixture) -> None:
    assert await _settle(queue, Settlement()) == SettlementResult()


@pytest.mark.every_engine
async def test_everything_at_once_across_queues(queue: QueueFixture, other: QueueFixture) -> None:
    await queue.send(b"done", group="g")
    await queue.send(b"held", group="h")
    done, held = sorted(await queue.take(), key=lambda message: message.body)
    settled = await _settle(
        queue,
        Settlement(
            deletes=((queue.q, done.handle),),
            sends=((other.q, other.entry(b"next")), (queue.q, queue.entry(b"more", group="g"))),
            changes=((queue.q, Change(held.handle, queue.now_ms + 60_000, b"less")),),
        ),
    )
    assert (settled.deletes, settled.changes) == ((DONE,), (DONE,))
    assert all(isinstance(sent, SentEntry) for sent in settled.sends)
    assert bodies(await other.take()) == [b"next"]
    assert bodies(await queue.take()) == [b"more"]
    queue.advance(60_000)
    assert b"less" in bodies(await queue.take())


async def test_results_are_in_the_order_of_the_entries(queue: QueueFixture, other: QueueFixture) -> None:
    await queue.send(*numbered(3), group="g")
    one, two, three = await queue.take()
    await queue.delete(two)
    settled = await _settle(
        queue,
        Settlement(
            deletes=((queue.q, three.handle), (queue.q, two.handle), (queue.q, b"junk"), (other.q, one.handle)),
            changes=((queue.q, Change(b"junk", 0)), (queue.q, Change(one.handle, queue.now_ms))),
        ),
    )
    assert settled.deletes == (DONE, GONE, MALFORMED, GONE)
    assert settled.changes == (MALFORMED, DONE)


async def test_a_handle_named_for_two_queues_counts_in_its_own(
    queue: QueueFixture, clock: Clock, fifo_queue: bool
) -> None:
    stranger = QueueFixture(queue.engine, clock, fifo=fifo_queue)
    await stranger.send(b"stranger", group="g")
    for deletes in ((queue.q, stranger.q), (stranger.q, queue.q)):
        await queue.send(b"mine", group="g")
        message = await queue.take_one()
        settled = await _settle(queue, Settlement(deletes=tuple([(q, message.handle) for q in deletes])))
        assert settled.deletes == tuple([DONE if q is queue.q else GONE for q in deletes])
        assert await queue.counts() == (0, 0, 0)
        assert await stranger.counts() == (1, 0, 0)


async def test_a_failed_delete_does_not_stop_a_settlement(queue: QueueFixture, other: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    stale = await queue.take_one(0)
    current = await queue.take_one()
    settled = await _settle(
        queue, Settlement(deletes=((queue.q, stale.handle),), sends=((other.q, other.entry(b"next")),))
    )
    assert settled.deletes == (STALE,)
    assert bodies(await other.take()) == [b"next"]
    assert await queue.delete(current) == [DONE]


@pytest.mark.needs(atomic_settle=True)
@pytest.mark.parametrize("position", [0, 1, 2])
async def test_a_rejected_send_stops_a_settlement(
    queue: QueueFixture, other: QueueFixture, clock: Clock, position: int
) -> None:
    dropped = QueueFixture(queue.engine, clock)
    await dropped.drop()
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    targets = [other, other]
    targets.insert(position, dropped)
    settled = await _settle(
        queue,
        Settlement(
            deletes=((queue.q, message.handle),),
            sends=tuple([(target.q, target.entry(b"next")) for target in targets]),
            changes=((queue.q, Change(message.handle, queue.now_ms)),),
        ),
    )
    assert all(isinstance(sent, RejectedEntry) for sent in settled.sends)
    assert settled.sends[position] == RejectedEntry("no_such_queue")
    assert (settled.deletes, settled.changes) == ((), ())
    assert not await other.peek_all()
    assert await queue.counts() == (0, 1, 0)
    assert await queue.delete(message) == [DONE]


@pytest.mark.needs(atomic_settle=True)
async def test_a_settlement_waits_for_idle_groups(queue: QueueFixture, other: QueueFixture) -> None:
    """A group is busy while a message of it is visible, in flight or delayed; other groups do not count."""
    await queue.send(b"one", group="g")
    idle = ((queue.q, "h"), (queue.q, "g"), (other.q, "g"))
    settlement = Settlement(sends=((other.q, other.entry(b"next")),), idle=idle)
    refused = SettlementResult(busy=(1,))
    assert await _settle(queue, settlement) == refused
    message = await queue.take_one()
    assert await _settle(queue, settlement) == refused
    await queue.hide(message, 60_000)
    assert await _settle(queue, settlement) == refused
    assert not await other.peek_all()
    assert await queue.delete(message) == [DONE]
    settled = await _settle(queue, settlement)
    assert (settled.busy, bodies(await other.take())) == ((), [b"next"])


async def test_a_rejected_send_deletes_nothing(queue: QueueFixture, other: QueueFixture) -> None:
    """On all engines, atomic or not: if a send is rejected, nothing is deleted."""
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    await other.drop()
    await _settle(queue, Settlement(deletes=((queue.q, message.handle),), sends=((other.q, other.entry(b"on")),)))
    assert len(await queue.peek_all()) == 1


@pytest.mark.needs(fifo=True)
async def test_a_settlement_deduplicates_its_sends(fifo: QueueFixture) -> None:
    entries = [fifo.entry(b"%d" % i, group="g", dedup="key") for i in range(2)]
    settled = await _settle(fifo, Settlement(sends=tuple([(fifo.q, entry) for entry in entries])))
    assert [isinstance(sent, SentEntry) and sent.duplicate for sent in settled.sends] == [False, True]
    assert bodies(await fifo.take()) == [b"0"]


async def test_a_settlement_is_durable_when_it_returns(
    queue: QueueFixture, other: QueueFixture, driver: Driver
) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    await _settle(queue, Settlement(((queue.q, message.handle),), ((other.q, other.entry(b"next")),)))
    assert not await (await driver.restart(queue)).peek_all()
    assert bodies(await other.at(driver.engine).take()) == [b"next"]


# -- changes of the body ----------------------------------------------------------------------------------------------


async def _change(queue: QueueFixture, change: Change) -> Outcome:
    return (await queue.engine.change(queue.q, [change], queue.now_ms))[0]


@pytest.mark.needs(update_body=True)
@pytest.mark.parametrize("body", [b"", b"shorter", b"longer" * 10_000])
async def test_a_changed_body_is_received_next(queue: QueueFixture, body: bytes) -> None:
    await queue.send(b"what was sent", group="g")
    message = await queue.take_one(1_000)
    assert await _change(queue, Change(message.handle, None, body)) == DONE
    assert bodies(await queue.peek_all()) == [body]
    queue.advance(999)
    assert not await queue.take()
    queue.advance(1)
    again = await queue.take_one()
    assert (again.body, again.id, again.sequence, again.deliveries) == (body, message.id, message.sequence, 2)


@pytest.mark.needs(update_body=True)
async def test_the_handle_stays_valid_for_the_next_change(queue: QueueFixture) -> None:
    """A consumer stores its remaining work again and again under the same handle."""
    await queue.send(b"0", group="g")
    message = await queue.take_one()
    for i in range(1, 5):
        queue.advance(20_000)
        assert await _change(queue, Change(message.handle, queue.now_ms + 30_000, b"%d" % i)) == DONE
        assert not await queue.take()
    assert bodies(await queue.peek_all()) == [b"4"]
    assert await queue.delete(message) == [DONE]


@pytest.mark.needs(update_body=True)
async def test_a_change_of_nothing_changes_nothing(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    assert await _change(queue, Change(message.handle)) == DONE
    assert await queue.counts() == (0, 1, 0)
    assert bodies(await queue.peek_all()) == [b"one"]


@pytest.mark.every_engine
@pytest.mark.needs(update_body=True)
async def test_a_changed_body_survives_a_restart(queue: QueueFixture, driver: Driver) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    await _change(queue, Change(message.handle, queue.now_ms, b"two"))
    assert bodies(await (await driver.restart(queue)).take()) == [b"two"]


async def test_capabilities_of_engines(engine: Engine) -> None:
    assert engine.capabilities.max_delay_ms >= 900_000
