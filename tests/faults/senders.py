"""Who sends to FIFO queues in a kill round: batches of several groups, and what was acknowledged once more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random

import msgspec

from tests.faults.ledger import Ledger, Letter, body_of
from tests.faults.wire import NotSent, OutcomeOpen, Wire

GROUPS_A_SENDER = 2
BATCH_MAX = 4
ECHO_SHARE = 0.25
RETRY_PAUSE_S = 0.05


class _Sent(msgspec.Struct, frozen=True, rename="pascal"):
    message_id: str
    sequence_number: str


class _BatchAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    successful: tuple[_Sent, ...] = ()


async def insist(letters: Sequence[Letter], call: Callable[[], Awaitable[bytes]]) -> bytes:
    """Repeat a call that sends these until it is answered."""
    while True:
        try:
            return await call()
        except NotSent:
            pass
        except OutcomeOpen:
            for letter in letters:
                letter.open += 1
        await asyncio.sleep(RETRY_PAUSE_S)


class FifoSender:
    """A group has one sender, which waits for its answers; so its order is known."""

    def __init__(self, wire: Wire, ledger: Ledger, random: Random, queue: str, name: str) -> None:
        self._wire = wire
        self._ledger = ledger
        self._random = random
        self._queue = queue
        self._numbers = {f"{name}{group}": count() for group in range(GROUPS_A_SENDER)}
        self._acknowledged: list[Letter] = []

    async def step(self) -> None:
        if self._acknowledged and self._random.random() < ECHO_SHARE:
            await self._echo(self._random.choice(self._acknowledged))
            return
        letters = [self._letter() for _ in range(self._random.randint(1, BATCH_MAX))]
        for letter in letters:
            letter.began_ns = time.time_ns()
        answers = await self._send(letters)
        for letter, sent in zip(letters, answers, strict=True):
            letter.acknowledged_ns = time.time_ns()
            letter.ids.append(sent.message_id)
            letter.sequence = int(sent.sequence_number)
        self._acknowledged += letters

    async def _echo(self, letter: Letter) -> None:
        """Within five minutes it is a duplicate, whatever has become of the first and whoever was killed meanwhile."""
        (sent,) = await self._send([letter])
        letter.echoes.append((sent.message_id, int(sent.sequence_number)))

    def _letter(self) -> Letter:
        group = self._random.choice(list(self._numbers))
        number = next(self._numbers[group])
        return self._ledger.letter(self._queue, f"{group}-{number}", group, number)

    async def _send(self, letters: list[Letter]) -> tuple[_Sent, ...]:
        entries = [_entry(place, letter) for place, letter in enumerate(letters)]
        members: dict[str, object] = {"QueueUrl": self._queue, "Entries": entries}
        answer = await insist(letters, lambda: self._wire.sqs("SendMessageBatch", members))
        return msgspec.json.decode(answer, type=_BatchAnswer).successful


def _entry(place: int, letter: Letter) -> dict[str, str]:
    """Every second letter is known by its body alone."""
    entry = {"Id": str(place), "MessageBody": body_of(letter.text), "MessageGroupId": letter.group}
    return entry | ({"MessageDeduplicationId": letter.text} if letter.number % 2 else {})
