"""The contract by which a queue's stored messages go from one engine to another: everything of a message but its
receipt handles.

It is for `cns migrate`: no process uses the queue meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cqs.engines.contract import Engine, Entry, QueueRef


@dataclass(frozen=True, slots=True)
class MovedMessage:
    """A stored message. The body is the engine's opaque one: text, attributes, their MD5s, sender, time sent, trace
    header, deduplication id and dead-letter source are in it."""

    id: str
    body: bytes
    born_at_ms: int  # retention counts from here
    visible_at_ms: int
    deliveries: int
    first_received_ms: int
    group: str  # FIFO: the message group; standard: the tenant of a fair queue; '' for none
    sequence: int  # FIFO: the number that its sender and receivers see; standard: 0

    def entry(self) -> Entry:
        return Entry(
            self.id,
            self.body,
            self.born_at_ms,
            self.visible_at_ms,
            self.group,
            deliveries=self.deliveries,
            first_received_ms=self.first_received_ms,
        )


class Original(NamedTuple):
    """The first message of a deduplication key. It may be gone; its key is remembered until `until_ms`."""

    until_ms: int
    key: str
    id: str
    sequence: int


class FifoMemory(NamedTuple):
    """A FIFO queue's memory beside its messages. Originals are sorted by the end of their memory."""

    next_sequence: int = 0
    originals: tuple[Original, ...] = ()


class Arrival(Protocol):
    """Messages that arrive in a queue."""

    async def add(self, messages: Sequence[MovedMessage]) -> list[MovedMessage]:
        """Add a batch, in order. Returns it as stored: sequence numbers may be new, and rise as before."""
        ...

    async def finish(self) -> FifoMemory:
        """Make the messages visible to the queue's users. Returns the memory as stored."""
        ...


class Transfer(Protocol):
    """Methods raise StoreUnavailable, StoreFull or OutcomeUnknown."""

    def messages(self, q: QueueRef, *, cached: bool = True) -> AsyncIterator[list[MovedMessage]]:
        """All messages, expired ones too, oldest first, FIFO ones in the order of their sequence numbers; in pages of
        `PAGE_ROWS`. With `cached`, with what only a cache knows of them."""
        ...

    async def memory(self, q: QueueRef, now_ms: int) -> FifoMemory: ...

    async def begin(self, q: QueueRef, memory: FifoMemory, now_ms: int) -> Arrival:
        """Empty the queue of whatever an earlier copy left, and begin to fill it. The next number that the queue gives
        is at least `memory.next_sequence`."""
        ...


class MovableEngine(Engine, Protocol):
    """An engine whose queues can be moved."""

    transfer: Transfer


PAGE_ROWS = 100
"""Messages of a page: with bodies of the largest size it takes 100 MB."""
