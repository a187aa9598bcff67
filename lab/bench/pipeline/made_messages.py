"""Makes the audit events of one queue: every message sent, received and deleted, in almost the order of the sends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cns_common.events.audit_events import AuditEvent, MessageDeleted, MessageReceived, MessageSent, QueueAudited
from lab.bench.pipeline.made_events import SEGMENT_EVENTS, write_segment

QUEUE = "arn:aws:sqs:us-east-1:111111111111:audited"
BATCH = 10
"""Messages are received in tens, each ten in an order of its own."""


def write_messages(directory: Path, start_ms: int, messages: int, seed: int = 2) -> None:
    """Write segments of a sender's process and a receiver's process, for messages of one hour."""
    chance = random.Random(seed)
    for boot, made in (("send", _sends(start_ms, messages)), ("recv", _receives(start_ms, messages, chance))):
        first = 1
        while batch := list(islice(made, SEGMENT_EVENTS)):
            write_segment(directory, f"{boot}{seed:012x}", first, batch)
            first += len(batch)


def _at_ms(start_ms: int, number: int, messages: int) -> int:
    return start_ms + number * 3_600_000 // messages


def _id(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000000"


def _sends(start_ms: int, messages: int) -> Iterator[AuditEvent]:
    yield QueueAudited(at_ms=start_ms, queue=QUEUE, audit="on", complete_from_ms=start_ms)
    for number in range(messages):
        yield MessageSent(
            at_ms=_at_ms(start_ms, number, messages),
            queue=QUEUE,
            message_id=_id(number),
            size_bytes=100,
            checksum=f"{number % 2**32:08x}",
        )


def _receives(start_ms: int, messages: int, chance: random.Random) -> Iterator[AuditEvent]:
    for first in range(0, messages, BATCH):
        numbers = list(range(first, min(first + BATCH, messages)))
        chance.shuffle(numbers)
        at_ms = _at_ms(start_ms, numbers[-1], messages) + 5
        for number in numbers:
            checksum = f"{number % 2**32:08x}"
            yield MessageReceived(at_ms=at_ms, queue=QUEUE, message_id=_id(number), receive_count=1, checksum=checksum)
        for number in numbers:
            yield MessageDeleted(at_ms=at_ms + 1, queue=QUEUE, message_id=_id(number))
