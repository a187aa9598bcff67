"""Who sends to FIFO queues and publishes to FIFO topics in a kill round: batches of several groups, and what was
acknowledged once more."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

import msgspec

from faults.accounting.ledger import Ledger, Letter, sized
from faults.service.wire import NotSent, OutcomeOpen, Wire

GROUPS_A_SENDER = 2
BATCH_MAX = 4
ECHO_SHARE = 0.25
RETRY_PAUSE_S = 0.05
PART = {
    "MessageAttributes.entry.1.Name": "part",
    "MessageAttributes.entry.1.Value.DataType": "String",
    "MessageAttributes.entry.1.Value.StringValue": "yes",
}
"""What `PART_POLICY` lets through."""

_PUBLISHED = re.compile(rb"<MessageId>([^<]+)</MessageId>.*?<SequenceNumber>(\d+)</SequenceNumber>")


class Told(NamedTuple):
    id: str
    sequence: int


Send = Callable[[Sequence[Letter]], Awaitable[list[Told]]]


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


def to_queue(wire: Wire, url: str) -> Send:
    async def send(letters: Sequence[Letter]) -> list[Told]:
        entries = [
            {"Id": str(place), "MessageBody": letter.body, **_ids(letter)} for place, letter in enumerate(letters)
        ]
        members: dict[str, object] = {"QueueUrl": url, "Entries": entries}
        answer = await insist(letters, lambda: wire.sqs("SendMessageBatch", members))
        sent = msgspec.json.decode(answer, type=_BatchAnswer).successful
        return [Told(each.message_id, int(each.sequence_number)) for each in sent]

    return send


def to_topic(wire: Wire, arn: str) -> Send:
    async def send(letters: Sequence[Letter]) -> list[Told]:
        members = {"TopicArn": arn}
        for place, letter in enumerate(letters):
            entry = {"Id": str(place), "Message": letter.body, **_ids(letter), **(PART if letter.is_in_part else {})}
            prefix = f"PublishBatchRequestEntries.member.{place + 1}"
            members |= {f"{prefix}.{name}": value for name, value in entry.items()}
        answer = await insist(letters, lambda: wire.sns("PublishBatch", members))
        return [Told(found[1].decode(), int(found[2])) for found in _PUBLISHED.finditer(answer)]

    return send


class FifoSender:
    """A group has one sender, which waits for its answers; so its order is known."""

    def __init__(
        self, send: Send, ledger: Ledger, random: Random, target: str, name: str, sizes: Sequence[int] = (1,)
    ) -> None:
        self._send = send
        self._ledger = ledger
        self._random = random
        self._target = target
        self._sizes = sizes
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
        for letter, told in zip(letters, answers, strict=True):
            letter.acknowledged_ns = time.time_ns()
            letter.ids.append(told.id)
            letter.sequence = told.sequence
        self._acknowledged += letters

    async def _echo(self, letter: Letter) -> None:
        """Within five minutes it is a duplicate, whatever has become of the first and whoever was killed meanwhile."""
        letter.echoes += await self._send([letter])

    def _letter(self) -> Letter:
        group = self._random.choice(list(self._numbers))
        number = next(self._numbers[group])
        text = sized(f"{group}-{number}", self._sizes[number % len(self._sizes)])
        return self._ledger.letter(self._target, text, group, number)


def _ids(letter: Letter) -> dict[str, str]:
    """Every second letter is known by its body alone."""
    group = {"MessageGroupId": letter.group}
    return group | ({"MessageDeduplicationId": letter.text} if letter.number % 2 else {})
