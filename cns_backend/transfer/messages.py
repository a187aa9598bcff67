"""Copies the messages of one queue from one store to the other, and computes what both must agree in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import msgspec

from cns_backend.transfer.side import Side
from cns_backend.transfer.tally import Tally
from cns_common.aws.call import INTERNAL_ACCOUNT
from cqs.engines.contract import QueueRef
from cqs.engines.moved_message import FifoMemory, MovableEngine, MovedMessage, Transfer
from cqs.queues.model import Queue
from cqs.queues.view import view_of

WRITE_BYTES = 1024 * 1024
"""The bodies of a batch. Cassandra refuses a write of 16 MB."""
UNCOMPARED_MS = 3_600_000
"""Messages that expire within this time from the start of their queue's copy are copied but not compared: the engine
may remove them before the comparison."""


class QueueDigest(msgspec.Struct, frozen=True):
    """What a queue has: the messages that expire after `cut_ms`, and the memory of a FIFO queue.

    The digest does not depend on the order of standard messages. FIFO messages are digested with their sequence
    numbers, which are their order."""

    count: int
    digest: int
    cut_ms: int


async def copy_messages(source: Side, target: Side, queue: Queue) -> QueueDigest:
    """Copy all messages of a queue. What an earlier copy, perhaps cut off, left in the target is removed before.
    Returns what the target must have; compare it with `digest(target, queue, its cut_ms)`.

    Messages in flight become visible, with their counts, except in internal queues: there a retry waits hidden. In an
    embedded target FIFO messages get new sequence numbers, in the same order."""
    now_ms = source.backend.clock.now_ms()
    tally = _Tally(_ref(source, queue), now_ms + UNCOMPARED_MS)
    leaving = _transfer(source)
    memory = await leaving.memory(tally.ref, now_ms) if queue.fifo else FifoMemory()
    arrival = await _transfer(target).begin(_ref(target, queue), memory, now_ms)
    async for page in leaving.messages(tally.ref):
        if queue.account != INTERNAL_ACCOUNT:
            page = [_released(message, now_ms) for message in page]
        for batch in _batches(page):
            tally.add(await arrival.add(batch))
    tally.remember(await arrival.finish())
    return tally.digest()


async def digest(side: Side, queue: Queue, cut_ms: int) -> QueueDigest:
    """What the queue has in the store. `cut_ms` is that of its copy."""
    tally = _Tally(_ref(side, queue), cut_ms)
    transfer = _transfer(side)
    if queue.fifo:
        tally.remember(await transfer.memory(tally.ref, cut_ms - UNCOMPARED_MS))
    async for page in transfer.messages(tally.ref, cached=False):
        tally.add(page)
    return tally.digest()


class _Tally:
    def __init__(self, ref: QueueRef, cut_ms: int) -> None:
        self.ref = ref
        self._cut_ms = cut_ms
        self._messages = Tally()
        self._originals = Tally()

    def add(self, messages: Sequence[MovedMessage]) -> None:
        for message in messages:
            if message.born_at_ms + self.ref.retention_ms > self._cut_ms:
                self._messages.add(message)

    def remember(self, memory: FifoMemory) -> None:
        for original in memory.originals:
            self._originals.add(original)

    def digest(self) -> QueueDigest:
        messages = self._messages
        return QueueDigest(messages.count, messages.digest + self._originals.digest, self._cut_ms)


def _transfer(side: Side) -> Transfer:
    return cast("MovableEngine", side.backend.engines[side.engine]).transfer


def _ref(side: Side, queue: Queue) -> QueueRef:
    return view_of(queue, side.backend.engines[side.engine], b"").ref


def _released(message: MovedMessage, now_ms: int) -> MovedMessage:
    in_flight = message.deliveries and message.visible_at_ms > now_ms
    return replace(message, visible_at_ms=now_ms) if in_flight else message


def _batches(messages: Sequence[MovedMessage]) -> Iterator[list[MovedMessage]]:
    batch: list[MovedMessage] = []
    size = 0
    for message in messages:
        if batch and size + len(message.body) > WRITE_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.body)
    if batch:
        yield batch
