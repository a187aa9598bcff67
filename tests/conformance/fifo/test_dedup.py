"""A FIFO queue accepts a deduplication key once in five minutes, even if its message is deleted (spec/sqs.md 7.2)."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import DEDUP_WINDOW_MS, SentEntry
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, QueueFixture, bodies

pytestmark = [pytest.mark.needs(fifo=True), pytest.mark.differs_by_engine]


async def _is_duplicate(queue: QueueFixture, original: SentEntry, dedup: str = "key", group: str = "g") -> bool:
    (sent,) = await queue.send(b"again", group=group, dedup=dedup)
    assert sent.duplicate == ((sent.id, sent.sequence) == (original.id, original.sequence))
    return sent.duplicate


@pytest.mark.spec("dedup.answer", "dedup.nothing-enqueued")
async def test_a_duplicate_is_answered_with_the_original_and_not_enqueued(fifo: QueueFixture) -> None:
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    assert not original.duplicate
    (again,) = await fifo.send(b"two", group="g", dedup="key")
    assert again == SentEntry(original.id, original.sequence, True)
    assert bodies(await fifo.take()) == [b"one"]


@pytest.mark.spec("dedup.within-a-batch")
async def test_within_one_send(fifo: QueueFixture) -> None:
    keys = ["a", "b", "a", "", "b", ""]
    entries = [fifo.entry(b"%d" % i, group="g", dedup=key) for i, key in enumerate(keys)]
    sent = await fifo.send_entries(entries)
    assert [isinstance(one, SentEntry) and one.duplicate for one in sent] == [False, False, True, False, True, False]
    assert bodies(await fifo.take()) == [b"0", b"1", b"3", b"5"]


async def test_of_concurrent_sends_one_is_the_original(fifo: QueueFixture) -> None:
    sends = await asyncio.gather(*[fifo.send(b"%d" % i, group="g", dedup="key") for i in range(20)])
    answers = [sent for (sent,) in sends]
    assert [sent.duplicate for sent in answers].count(False) == 1
    assert len({(sent.id, sent.sequence) for sent in answers}) == 1
    assert len(await fifo.peek_all()) == 1


@pytest.mark.spec("dedup.window", "dedup.not-extended")
async def test_the_window_is_five_minutes_from_the_first_send(fifo: QueueFixture) -> None:
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    for ms in (1, 100_000, DEDUP_WINDOW_MS - 100_002):
        fifo.advance(ms)
        assert await _is_duplicate(fifo, original)  # a duplicate does not extend the window
    fifo.advance(1)
    assert not await _is_duplicate(fifo, original)


async def test_after_the_window_a_new_one_begins(fifo: QueueFixture) -> None:
    await fifo.send(b"one", group="g", dedup="key")
    fifo.advance(DEDUP_WINDOW_MS)
    (second,) = await fifo.send(b"two", group="g", dedup="key")
    fifo.advance(DEDUP_WINDOW_MS - 1)
    assert await _is_duplicate(fifo, second)
    assert bodies(await fifo.take()) == [b"one", b"two"]


@pytest.mark.spec("dedup.after-receive", "dedup.after-delete")
async def test_receiving_and_deleting_do_not_end_the_window(fifo: QueueFixture) -> None:
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    message = await fifo.take_one()
    assert await _is_duplicate(fifo, original)
    assert await fifo.delete(message) == [DONE]
    assert await _is_duplicate(fifo, original)
    assert not await fifo.peek_all()


async def test_the_end_of_the_message_does_not_end_the_window(fifo: QueueFixture) -> None:
    fifo.set(retention_ms=60_000)
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    fifo.advance(60_000)
    assert not await fifo.take()
    assert await _is_duplicate(fifo, original)


async def test_the_deduplication_key_is_the_scope(fifo: QueueFixture) -> None:
    """The engine compares keys across groups. For a window per group, the service adds the group to the key."""
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    assert await _is_duplicate(fifo, original, group="h")
    assert not await _is_duplicate(fifo, original, dedup="Key")
    assert not await _is_duplicate(fifo, original, dedup="")


async def test_queues_do_not_share_keys(fifo: QueueFixture, clock: Clock) -> None:
    other = QueueFixture(fifo.engine, clock, fifo=True)
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    assert not await _is_duplicate(other, original)


@pytest.mark.spec("dedup.after-purge")
async def test_a_purge_clears_the_history(fifo: QueueFixture) -> None:
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    await fifo.purge()
    assert not await _is_duplicate(fifo, original)
    assert bodies(await fifo.take()) == [b"again"]


async def test_it_survives_a_restart(fifo: QueueFixture, driver: Driver) -> None:
    (original,) = await fifo.send(b"one", group="g", dedup="key")
    await fifo.delete(await fifo.take_one())
    fifo = await driver.restart(fifo)
    fifo.advance(DEDUP_WINDOW_MS - 1)
    assert await _is_duplicate(fifo, original)
    fifo.advance(1)
    assert not await _is_duplicate(fifo, original)


async def test_standard_queues_have_no_deduplication(standard: QueueFixture) -> None:
    sent = await standard.send(b"one", dedup="key") + await standard.send(b"two", dedup="key")
    assert [one.duplicate for one in sent] == [False, False]
    assert len(await standard.take()) == 2


@pytest.mark.spec("dedup.sequence-rises")
async def test_sequences_rise_by_send_not_by_group(fifo: QueueFixture) -> None:
    sequences = [(await fifo.send(b"x", group=group))[0].sequence for group in "abcabc"]
    assert sequences == sorted(set(sequences))
