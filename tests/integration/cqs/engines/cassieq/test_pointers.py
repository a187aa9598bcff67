"""The pointers and seals of `cassieq`, late and dead writers, and a message that is leased for twelve hours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from cqs.engines.cassieq.invisibility import STAY_MS
from cqs.engines.cassieq.rows import NewRow
from cqs.engines.cassieq.sending import new_message
from cqs.engines.cassieq.settling import ReceiptState
from cqs.engines.contract import Change
from tests.conformance.support import DONE, HIDE_MS, STALE, QueueFixture, bodies, numbered
from tests.integration.cqs.engines.cassieq.conftest import Processes, engine_of, statements_of

WAIT_MS = 30_000  # the default of a queue without `RepairWait`

TWELVE_HOURS_MS = 43_200_000


async def maintain(queue: QueueFixture) -> None:
    await engine_of(queue).maintain_queues(1_000, queue.now_ms)


async def insert_late(queue: QueueFixture, monoton: int, body: bytes) -> None:
    """Act as a writer that took a number, stopped, wrote after the seal and died before it looked for the seal."""
    engine = engine_of(queue)
    known = await engine._known_queues.get(queue.q)
    new = new_message(monoton, queue.entry(body))
    await engine._sender._rows.insert(known.key, monoton // known.size, [new])


async def take_numbers(queue: QueueFixture, n: int) -> list[int]:
    """Numbers of a writer that dies before its insert."""
    engine = engine_of(queue)
    known = await engine._known_queues.get(queue.q)
    return await engine._monotons.take(known.key, n, 1_000, known.size)


async def test_the_pointers_move_through_the_buckets(queue: QueueFixture) -> None:
    raw = engine_of(queue).raw
    await queue.send(*numbered(10))
    assert await raw.monoton(queue.q) == 10
    assert [message.monoton for message in (await raw.bucket(queue.q, 2)).messages] == [8, 9]
    held = await queue.take(6)
    assert (await raw.pointers(queue.q)).reader == 1
    assert (await raw.sealed_at_ms(queue.q, 0), await raw.sealed_at_ms(queue.q, 1)) == (queue.now_ms, None)
    assert await queue.delete(*held) == [DONE] * 6
    current = await raw.current_bucket(queue.q, only_unacked=True)
    assert (current.number, [message.monoton for message in current.messages]) == (1, [6, 7])
    held = await queue.take()
    queue.advance(WAIT_MS)
    await maintain(queue)
    pointers = await raw.pointers(queue.q)
    assert (pointers.reader, pointers.repair, pointers.invisibility, pointers.bucket_size) == (2, 2, 2, 4)
    assert not (await raw.bucket(queue.q, 0)).messages
    assert await queue.delete(*held) == [DONE] * 4
    await maintain(queue)
    assert await queue.counts() == (0, 0, 0)


async def test_a_raw_message_and_its_receipts(queue: QueueFixture) -> None:
    raw = engine_of(queue).raw
    await queue.send(b"one")
    first = await queue.take_one(1_000)
    assert await raw.receipt(queue.q, first.handle, queue.now_ms) is ReceiptState.CURRENT
    queue.advance(1_000)
    assert await raw.receipt(queue.q, first.handle, queue.now_ms) is ReceiptState.LEASE_ENDED
    second = await queue.take_one()
    assert await raw.receipt(queue.q, first.handle, queue.now_ms) is ReceiptState.EXPIRED
    assert await raw.receipt(queue.q, first.handle.replace(b".1.", b".7."), queue.now_ms) is ReceiptState.NEVER_ISSUED
    message = await raw.message(queue.q, 0)
    assert message is not None
    assert (message.id, message.version, message.deliveries, message.acked) == (second.id, 2, 2, False)
    assert await raw.body(queue.q, 0) == b"one"
    await queue.delete(second)
    assert await raw.receipt(queue.q, second.handle, queue.now_ms) is ReceiptState.SETTLED
    assert await raw.message(queue.q, 1) is None


async def test_numbers_of_a_dead_writer_hold_up_nobody(queue: QueueFixture) -> None:
    await queue.send(b"before")
    await take_numbers(queue, 9)
    await queue.send(b"after")
    assert bodies(await queue.drain()) == [b"before", b"after"]
    queue.advance(WAIT_MS)
    await maintain(queue)
    pointers = await engine_of(queue).raw.pointers(queue.q)
    assert (pointers.reader, pointers.repair) == (2, 2)
    assert await queue.counts() == (2, 0, 0)  # both returned


async def test_a_late_write_is_republished_once(queue: QueueFixture, processes: Processes) -> None:
    """By one of two processes that repair at the same time."""
    engine, other = engine_of(queue), await processes.start(queue.clock, like=queue)
    ghosts = await take_numbers(queue, 4)
    await queue.send(b"later")
    assert bodies(await queue.take(hide_ms=TWELVE_HOURS_MS)) == [b"later"]
    assert await engine.raw.sealed_at_ms(queue.q, 0) is not None
    assert not await other.take()
    queue.advance(STAY_MS)
    await maintain(queue)
    assert (await engine.raw.pointers(queue.q)).invisibility == 1, "before it is there, late messages are met at once"
    await insert_late(queue, ghosts[1], b"late")
    queue.advance(WAIT_MS - STAY_MS - 1)
    await maintain(queue)
    assert (await engine.raw.pointers(queue.q)).repair == 0, "it waits for late writes"
    queue.advance(1)
    other.now_ms = queue.now_ms
    assert not await other.take()
    await asyncio.gather(maintain(queue), maintain(other))
    (late,) = await other.take(hide_ms=TWELVE_HOURS_MS)
    assert (late.body, late.sequence) == (b"late", 6)
    queue.advance(WAIT_MS)
    await maintain(queue)
    assert not await queue.take()
    assert await queue.counts() == (0, 2, 0)
    assert engine._repairer.republished + engine_of(other)._repairer.republished == 1


async def test_a_repairer_that_died_in_the_middle_is_followed(queue: QueueFixture) -> None:
    """It reserved the message's new number, and did not insert it."""
    engine = engine_of(queue)
    ghosts = await take_numbers(queue, 4)
    await queue.send(b"later")
    await queue.drain(hide_ms=TWELVE_HOURS_MS)
    await insert_late(queue, ghosts[0], b"late")
    known = await engine._known_queues.get(queue.q)
    bucket = await engine._sender._rows.bucket(known.key, 0)
    target = await engine._repairer._reserve(known, bucket, bucket.rows[0])
    assert target is not None
    assert not await queue.take()
    queue.advance(WAIT_MS)
    await maintain(queue)
    assert [message.sequence for message in await queue.take()] == [target + 1]


async def test_a_sender_behind_a_seal_sends_again(queue: QueueFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first write is stopped until the bucket is sealed: nothing that is answered waits for repair."""
    engine = engine_of(queue)
    insert, stopped, go_on = engine._sender._rows.insert, asyncio.Event(), asyncio.Event()

    async def slow_insert(key: str, bucket: int, messages: Sequence[NewRow]) -> None:
        monkeypatch.undo()
        stopped.set()
        await go_on.wait()
        await insert(key, bucket, messages)

    monkeypatch.setattr(engine._sender._rows, "insert", slow_insert)  # the process is stopped here
    sending = asyncio.create_task(queue.send(b"slow"))
    await stopped.wait()
    await queue.send(*numbered(4))
    assert bodies(await queue.drain()) == numbered(4)
    assert (await engine.raw.pointers(queue.q)).reader == 1
    go_on.set()
    (sent,) = await sending
    assert sent.sequence == 6
    assert bodies(await queue.drain()) == [b"slow"]
    assert await queue.counts() == (0, 5, 0)


async def test_a_lease_of_twelve_hours_holds_up_nobody(queue: QueueFixture) -> None:
    """In the original the invisibility pointer waits for it: others that are not acknowledged come back late."""
    engine = engine_of(queue)
    await queue.send(b"long")
    long = await queue.take_one(TWELVE_HOURS_MS)
    costs = []
    for number in range(12):
        await queue.send(*numbered(8, b"%d " % number))
        before = statements_of(queue)
        (unacked, *others) = await queue.take(8, HIDE_MS)
        assert await queue.delete(*others) == [DONE] * 7
        queue.advance(HIDE_MS)
        assert bodies(await queue.take()) == [unacked.body], "a later message comes back in time"
        queue.advance(HIDE_MS)
        assert await queue.delete(await queue.take_one()) == [DONE]
        costs.append(statements_of(queue) - before)
        await maintain(queue)
    pointers = await engine.raw.pointers(queue.q)
    assert min(pointers.reader, pointers.invisibility, pointers.repair) >= 20
    assert min(costs[6:]) <= max(costs[:6]), "no call costs more for it; a slow one may take two attempts"
    queue.advance(HIDE_MS)
    assert not await queue.take()  # it removes entries of messages that were deleted, which a slow call may leave
    assert {entry.monoton for entry in await engine.raw.hidden(queue.q, 10)} == {0}
    assert await queue.counts() == (0, 1, 0)
    queue.advance(TWELVE_HOURS_MS)
    again = await queue.take_one()
    assert (again.body, again.deliveries) == (b"long", 2)
    assert await queue.delete(long, again) == [STALE, DONE]


async def test_a_message_given_back_early_comes_back_in_every_process(
    queue: QueueFixture, processes: Processes
) -> None:
    """Both remember when the bucket behind the reader is due."""
    other = await processes.start(queue.clock, like=queue)
    await queue.send(*numbered(9))
    messages = await queue.take(9, TWELVE_HOURS_MS)
    assert not await other.take()
    assert await queue.engine.change(queue.q, [Change(messages[1].handle, queue.now_ms)], queue.now_ms) == [DONE]
    assert await other.delete(*messages[:1]) == [DONE]
    assert bodies(await other.take()) == [messages[1].body]


async def test_one_conditional_write_takes_the_numbers_of_all_that_wait(queue: QueueFixture) -> None:
    engine = engine_of(queue)
    await asyncio.gather(*[queue.send(b"%d" % number) for number in range(64)])
    shared = engine._monotons.writes
    queue.q = replace(queue.q, options=(*queue.q.options, ("IdRange", "1")))
    await asyncio.gather(*[queue.send(b"%d" % number) for number in range(64)])
    assert shared <= 8
    assert engine._monotons.writes - shared == 64


async def test_a_queue_says_how_long_repair_waits(queue: QueueFixture) -> None:
    queue.q = replace(queue.q, options=(*queue.q.options, ("RepairWait", "5")))
    await take_numbers(queue, 3)
    await queue.send(*numbered(2))
    await queue.drain(hide_ms=TWELVE_HOURS_MS)
    engine = engine_of(queue)
    assert await engine.raw.sealed_at_ms(queue.q, 0) is not None
    queue.advance(4_999)
    await maintain(queue)
    assert (await engine.raw.pointers(queue.q)).repair == 0
    queue.advance(1)
    await maintain(queue)
    assert (await engine.raw.pointers(queue.q)).repair == 1


async def test_any_message_of_a_bucket_is_read_without_strict_fifo(queue: QueueFixture) -> None:
    """Each once; those of a bucket in any order, the buckets in turn."""
    queue.q = replace(queue.q, options=(("BucketSize", "20"), ("StrictFifo", "false")))
    everything = numbered(40)
    for at in range(0, 40, 10):
        await queue.send(*everything[at : at + 10])
    received = [(await queue.take_one()).body for _ in everything]
    assert sorted(received) == everything
    assert received != everything
    assert sorted(received[:20]) == everything[:20]
