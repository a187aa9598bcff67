"""Many concurrent senders and receivers: no message is lost, invented or delivered twice, and groups keep their
order."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable

import pytest

from cqs.engines.contract import Message
from tests.conformance.support import DONE, HIDE_MS, QueueFixture

pytestmark = pytest.mark.differs_by_engine

SENDERS = RECEIVERS = 32
EACH = 40
EMPTY_MAX = 10_000
"""Receives without a message, one after the other, after all was sent: then messages are missing."""


class ReceiverGroup:
    """The receivers of one queue, and the messages they got."""

    def __init__(self, queue: QueueFixture, expected: int) -> None:
        self.queue = queue
        self.expected = expected
        self.got: list[Message] = []
        self.held: Counter[str] = Counter()
        """Messages in flight by group."""
        self.senders = SENDERS
        self.empty = 0

    async def wait_for(self, sending: Awaitable[list[str]]) -> list[str]:
        """Wait for a sender. Returns what it sent."""
        sent = await sending
        self.senders -= 1
        return sent

    async def receive(self, dice: random.Random) -> None:
        """Receive and delete until the expected number of messages was received."""
        while len(self.got) < self.expected:
            taken = await self.queue.take(dice.randrange(1, 11))
            if not taken:
                self.empty += not self.senders
                assert self.empty < EMPTY_MAX, f"{len(self.got)} of {self.expected} were received"
                await asyncio.sleep(0)
                continue
            self.empty = 0
            if self.queue.q.fifo:
                assert not [message.group for message in taken if self.held[message.group]], "two of a group in flight"
            self.got += taken
            self.held.update(message.group for message in taken)
            for _ in range(dice.randrange(3)):
                await asyncio.sleep(0)
            self.held.subtract(message.group for message in taken)
            assert await self.queue.delete(*taken) == [DONE] * len(taken)


async def _send(queue: QueueFixture, sender: int, dice: random.Random) -> list[str]:
    """Send messages, one by one or in batches. Returns the ids of those accepted."""
    ids: list[str] = []
    left = EACH
    while left:
        n = min(left, dice.choice([1, 1, 10]))
        entries = [queue.entry(b"%d %d" % (sender, EACH - left + i), group=f"{sender % 8}") for i in range(n)]
        await queue.send_entries(entries)
        ids += [entry.id for entry in entries]
        left -= n
    return ids


@pytest.mark.parametrize("seed", range(2))
async def test_each_message_is_received_once(queue: QueueFixture, seed: int) -> None:
    floor = ReceiverGroup(queue, SENDERS * EACH)
    sending = [floor.wait_for(_send(queue, sender, random.Random(f"{seed} {sender}"))) for sender in range(SENDERS)]
    receiving = [floor.receive(random.Random(f"{seed} r {receiver}")) for receiver in range(RECEIVERS)]
    sent, _ = await asyncio.gather(asyncio.gather(*sending), asyncio.gather(*receiving))
    assert Counter(message.id for message in floor.got) == Counter(one for ids in sent for one in ids)
    assert {message.deliveries for message in floor.got} == {1}
    assert await queue.counts() == (0, 0, 0)
    assert not await queue.peek_all()
    if queue.q.fifo:
        _check_order(floor.got)


def _check_order(received: list[Message]) -> None:
    """Each group keeps the order of its sends, and within it each sender's."""
    by_group: dict[str, list[Message]] = {}
    for message in received:
        by_group.setdefault(message.group, []).append(message)
    for messages in by_group.values():
        sequences = [message.sequence for message in messages]
        assert sequences == sorted(set(sequences))
        by_sender: dict[bytes, list[int]] = {}
        for message in messages:
            sender, number = message.body.split()
            by_sender.setdefault(sender, []).append(int(number))
        assert all(numbers == list(range(EACH)) for numbers in by_sender.values())


@pytest.mark.every_engine
async def test_only_expired_leases_cause_repeats(standard: QueueFixture) -> None:
    """Half of the receivers do not delete: their messages return after the timeout, and not before."""
    dice = random.Random(1)
    await standard.send_entries([standard.entry(b"%d" % i) for i in range(400)])
    done: list[str] = []
    for round_ in range(1, 30):
        taken = [message for got in await asyncio.gather(*[standard.take() for _ in range(50)]) for message in got]
        if not taken:
            break
        ids = [message.id for message in taken]
        assert len(set(ids)) == len(ids)
        assert not set(ids) & set(done)
        assert {message.deliveries for message in taken} == {round_}
        finished = [message for message in taken if dice.random() < 0.5]
        await standard.delete(*finished)
        done += [message.id for message in finished]
        assert not await standard.take()
        standard.advance(HIDE_MS)
    assert len(done) == len(set(done)) == 400


@pytest.mark.every_engine
async def test_concurrent_deletes_of_a_message(queue: QueueFixture) -> None:
    await queue.send(b"one", group="g")
    message = await queue.take_one()
    outcomes = await asyncio.gather(*[queue.delete(message) for _ in range(50)])
    assert [outcome for (outcome,) in outcomes].count(DONE) == 1
    assert await queue.counts() == (0, 0, 0)


async def test_a_receive_finds_messages_acknowledged_before_it(queue: QueueFixture) -> None:
    for i in range(50):
        await queue.send(b"%d" % i, group=f"{i}")
        (message,) = await queue.take()
        assert message.body == b"%d" % i
        await queue.delete(message)


async def test_cancelled_calls_do_not_affect_others(standard: QueueFixture) -> None:
    """A cancelled call is done completely or not at all; other callers get their results."""
    sends = [asyncio.create_task(standard.send(b"%d" % i)) for i in range(100)]
    await asyncio.sleep(0)
    for send in sends[::2]:
        send.cancel()
    answers = await asyncio.gather(*sends, return_exceptions=True)
    kept = {b"%d" % i for i, answer in enumerate(answers) if isinstance(answer, list)}
    assert {b"%d" % i for i in range(1, 100, 2)} <= kept
    there = {peeked.body for peeked in await standard.peek_all()}
    assert kept <= there
    assert len(await standard.drain()) == len(there)
