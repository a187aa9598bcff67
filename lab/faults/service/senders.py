"""Senders to FIFO queues and FIFO topics in a kill round: batches of several groups, and repeats of acknowledged
messages."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

import msgspec

from lab.faults.accounting.ledger import Ledger, SentMessage, sized
from lab.faults.service.wire import NotSent, OutcomeUnknown, Wire

GROUPS_PER_SENDER = 2
BATCH_MAX = 4
REPEAT_SHARE = 0.25
RETRY_PAUSE_S = 0.05
PART = {
    "MessageAttributes.entry.1.Name": "part",
    "MessageAttributes.entry.1.Value.DataType": "String",
    "MessageAttributes.entry.1.Value.StringValue": "yes",
}
"""A message attribute that matches `PART_POLICY`."""

_PUBLISHED = re.compile(rb"<MessageId>([^<]+)</MessageId>.*?<SequenceNumber>(\d+)</SequenceNumber>")


class Acknowledgement(NamedTuple):
    id: str
    sequence: int


Send = Callable[[Sequence[SentMessage]], Awaitable[list[Acknowledgement]]]


class _SentEntry(msgspec.Struct, frozen=True, rename="pascal"):
    message_id: str
    sequence_number: str


class _BatchAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    successful: tuple[_SentEntry, ...] = ()


async def send_until_answered(messages: Sequence[SentMessage], call: Callable[[], Awaitable[bytes]]) -> bytes:
    """Repeat a call that sends `messages` until it is answered; counts attempts without an answer in them."""
    while True:
        try:
            return await call()
        except NotSent:
            pass
        except OutcomeUnknown:
            for message in messages:
                message.unknown_outcomes += 1
        await asyncio.sleep(RETRY_PAUSE_S)


def to_queue(wire: Wire, url: str) -> Send:
    async def send(messages: Sequence[SentMessage]) -> list[Acknowledgement]:
        entries = [
            {"Id": str(place), "MessageBody": message.body, **deduplication(message)}
            for place, message in enumerate(messages)
        ]
        members: dict[str, object] = {"QueueUrl": url, "Entries": entries}
        answer = await send_until_answered(messages, lambda: wire.sqs("SendMessageBatch", members))
        sent = msgspec.json.decode(answer, type=_BatchAnswer).successful
        return [Acknowledgement(each.message_id, int(each.sequence_number)) for each in sent]

    return send


def to_topic(wire: Wire, arn: str) -> Send:
    async def send(messages: Sequence[SentMessage]) -> list[Acknowledgement]:
        members = {"TopicArn": arn}
        for place, message in enumerate(messages):
            entry = {
                "Id": str(place),
                "Message": message.body,
                **deduplication(message),
                **(PART if message.is_in_part else {}),
            }
            prefix = f"PublishBatchRequestEntries.member.{place + 1}"
            members |= {f"{prefix}.{name}": value for name, value in entry.items()}
        answer = await send_until_answered(messages, lambda: wire.sns("PublishBatch", members))
        return [Acknowledgement(found[1].decode(), int(found[2])) for found in _PUBLISHED.finditer(answer)]

    return send


class FifoSender:
    """Each group has one sender, which waits for each answer, so the order of its messages is known."""

    def __init__(
        self, send: Send, ledger: Ledger, random: Random, target: str, name: str, sizes: Sequence[int] = (1,)
    ) -> None:
        self._send = send
        self._ledger = ledger
        self._random = random
        self._target = target
        self._sizes = sizes
        self._numbers = {f"{name}{group}": count() for group in range(GROUPS_PER_SENDER)}
        self._acknowledged: list[SentMessage] = []

    async def step(self) -> None:
        if self._acknowledged and self._random.random() < REPEAT_SHARE:
            await self._repeat(self._random.choice(self._acknowledged))
            return
        messages = [self._message() for _ in range(self._random.randint(1, BATCH_MAX))]
        for message in messages:
            message.began_ns = time.time_ns()
        answers = await self._send(messages)
        for message, told in zip(messages, answers, strict=True):
            message.acknowledged_ns = time.time_ns()
            message.ids.append(told.id)
            message.sequence = told.sequence
        self._acknowledged += messages

    async def _repeat(self, message: SentMessage) -> None:
        """Send an acknowledged message again: within five minutes it is a duplicate, even after a delete or a kill."""
        message.repeats += await self._send([message])

    def _message(self) -> SentMessage:
        group = self._random.choice(list(self._numbers))
        number = next(self._numbers[group])
        text = sized(f"{group}-{number}", self._sizes[number % len(self._sizes)])
        return self._ledger.add_message(self._target, text, group, number)


def deduplication(message: SentMessage) -> dict[str, str]:
    """A message of no group has none; every second has no deduplication id, so that its body's hash counts."""
    if not message.group:
        return {}
    group = {"MessageGroupId": message.group}
    return group | ({"MessageDeduplicationId": message.text} if message.number % 2 else {})
