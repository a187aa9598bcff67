"""Senders and publishers of a round: each call is repeated until it is answered; to FIFO queues and topics they send
batches of several groups, and repeat acknowledged messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, NamedTuple

from lab.faults.accounting.ledger import Ledger, SentMessage, sized
from lab.faults.service.wire import Caller

GROUPS_PER_SENDER = 2
BATCH_MAX = 4
REPEAT_SHARE = 0.25
RETRY_PAUSE_S = 0.05
PART = {"part": {"DataType": "String", "StringValue": "yes"}}
"""Message attributes that match `PART_POLICY`."""


class Acknowledgement(NamedTuple):
    id: str
    sequence: int


class Sender:
    """Sends to one queue or topic. A single message goes by the call for one."""

    def __init__(self, caller: Caller, ledger: Ledger, target: str) -> None:
        self._caller = caller
        self._ledger = ledger
        self._target = target

    async def send_new(self, *texts: str) -> None:
        await self.acknowledge([self._ledger.add_message(self._target, text) for text in texts])

    async def acknowledge(self, messages: Sequence[SentMessage]) -> None:
        """Send messages and enter what was answered."""
        for message in messages:
            message.began_ns = time.time_ns()
        for message, told in zip(messages, await self.send(messages), strict=True):
            message.acknowledged_ns = time.time_ns()
            message.ids.append(told.id)
            message.sequence = told.sequence

    async def send(self, messages: Sequence[SentMessage]) -> list[Acknowledgement]:
        is_topic = self._target.startswith("arn:")
        service, name, body = ("sns", "publish", "Message") if is_topic else ("sqs", "send_message", "MessageBody")
        where, entries_name = ("TopicArn", "PublishBatchRequestEntries") if is_topic else ("QueueUrl", "Entries")
        entries: list[dict[str, Any]] = [{body: message.body, **_deduplication(message)} for message in messages]
        for message, entry in zip(messages, entries, strict=True):
            if is_topic and message.group and message.is_in_part:
                entry["MessageAttributes"] = PART
        if len(messages) == 1:
            return [_acknowledgement(await self._call(messages, service, name, {where: self._target, **entries[0]}))]
        batch = [{"Id": str(place), **entry} for place, entry in enumerate(entries)]
        answer = await self._call(messages, service, f"{name}_batch", {where: self._target, entries_name: batch})
        return [_acknowledgement(entry) for entry in answer["Successful"]]

    async def _call(
        self, messages: Sequence[SentMessage], service: str, operation: str, members: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Repeat a call until it is answered, so that the order in FIFO groups is known."""
        while True:
            answer = await self._caller.call(service, operation, members)
            for message in messages:
                message.unknown_outcomes += answer.unknown_outcomes
            if not answer.failed:
                return answer.members
            await asyncio.sleep(RETRY_PAUSE_S)


class FifoSender:
    """Sends to a FIFO queue or FIFO topic. Each group has one sender, which waits for each answer: the order of its
    sends is known. `sizes` are those of the bodies, in turn within each group."""

    def __init__(
        self, caller: Caller, ledger: Ledger, random: Random, target: str, name: str, sizes: Sequence[int] = (1,)
    ) -> None:
        self._sender = Sender(caller, ledger, target)
        self._ledger = ledger
        self._random = random
        self._target = target
        self._sizes = sizes
        self._numbers = {f"{name}{group}": count() for group in range(GROUPS_PER_SENDER)}
        self._acknowledged: list[SentMessage] = []

    async def step(self) -> None:
        """Send new messages, or an acknowledged one again: within five minutes it is a duplicate, even after a delete
        or a kill."""
        if self._acknowledged and self._random.random() < REPEAT_SHARE:
            message = self._random.choice(self._acknowledged)
            message.repeats += await self._sender.send([message])
            return
        messages = [self._message() for _ in range(self._random.randint(1, BATCH_MAX))]
        await self._sender.acknowledge(messages)
        self._acknowledged += messages

    def _message(self) -> SentMessage:
        group = self._random.choice(list(self._numbers))
        number = next(self._numbers[group])
        text = sized(f"{group}-{number}", self._sizes[number % len(self._sizes)])
        return self._ledger.add_message(self._target, text, group, number)


def _acknowledgement(entry: Mapping[str, str]) -> Acknowledgement:
    return Acknowledgement(entry["MessageId"], int(entry.get("SequenceNumber", "0")))


def _deduplication(message: SentMessage) -> dict[str, str]:
    """A message of no group has none; every second has no deduplication id, so that its body's hash counts."""
    if not message.group:
        return {}
    group = {"MessageGroupId": message.group}
    return group | ({"MessageDeduplicationId": message.text} if message.number % 2 else {})
