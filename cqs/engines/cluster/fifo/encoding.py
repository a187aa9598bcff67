"""The stored form of slots and snapshots.

A large snapshot is encoded and decoded page by page, so that the event loop can run in between. Version 1 has no pages:
small snapshots still have none, and processes of that version can read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from cns_common.errors import StoreUnavailable
from cqs.engines.cluster.fifo.commands import Command, PullBack
from cqs.engines.cluster.fifo.dedup import DedupRecord, ReceiveAttempt
from cqs.engines.cluster.fifo.order import QueuedMessage

FORMAT_VERSION = 2
"""The newest known version of stored commands and snapshots, including what commands do. A process must not read a
newer one. 2: PullBack, and snapshots with pages."""
PAGE_ITEMS = 1_000

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Work in steps of a few milliseconds at most."""


def at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def in_turns(steps: Steps[T]) -> T:
    """Do one step in each turn of the loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """`writer` is random for each attempt, so the winner recognises its slot."""

    format_version: int
    writer: str
    commands: list[Command]


class SnapshotHead(msgspec.Struct, frozen=True, array_like=True):
    """A state without its messages and windows, and without what can be derived."""

    generation: int
    dropped: bool
    now_ms: int
    next_seq: int
    next_lease: int


class _Snapshot(msgspec.Struct, array_like=True):
    """The lists are the first pages."""

    format_version: int
    generation: int
    dropped: bool
    now_ms: int
    next_seq: int
    next_lease: int
    messages: list[QueuedMessage]
    dedup_records: list[DedupRecord]
    attempts: list[ReceiveAttempt]
    message_pages: list[memoryview] = []
    dedup_pages: list[memoryview] = []
    attempt_pages: list[memoryview] = []


_encode = msgspec.msgpack.Encoder().encode
_decode_slot = msgspec.msgpack.Decoder(Slot).decode
_decode_snapshot = msgspec.msgpack.Decoder(_Snapshot).decode
_decode_messages = msgspec.msgpack.Decoder(list[QueuedMessage]).decode
_decode_records = msgspec.msgpack.Decoder(list[DedupRecord]).decode
_decode_attempts = msgspec.msgpack.Decoder(list[ReceiveAttempt]).decode


def encode_slot(writer: str, commands: list[Command]) -> bytes:
    version = 2 if any(isinstance(one, PullBack) for one in commands) else 1
    return _encode(Slot(version, writer, commands))


def decode_slot(stored: bytes) -> list[Command]:
    slot = _decode_slot(stored)
    _check_format(slot.format_version)
    return slot.commands


def encode_steps(
    head: SnapshotHead,
    messages: Sequence[QueuedMessage],
    records: Sequence[DedupRecord],
    attempts: Sequence[ReceiveAttempt],
) -> Steps[bytes]:
    pages: list[list[memoryview]] = []
    for items in (messages, records, attempts):
        encoded = []
        for at in range(PAGE_ITEMS, len(items), PAGE_ITEMS):
            encoded.append(memoryview(_encode(items[at : at + PAGE_ITEMS])))
            yield
        pages.append(encoded)
    return _encode(
        _Snapshot(
            2 if any(pages) else 1,
            head.generation,
            head.dropped,
            head.now_ms,
            head.next_seq,
            head.next_lease,
            list(messages[:PAGE_ITEMS]),
            list(records[:PAGE_ITEMS]),
            list(attempts[:PAGE_ITEMS]),
            *pages,
        )
    )


class StoredSnapshot:
    """A snapshot whose pages are decoded one by one."""

    def __init__(self, stored: bytes) -> None:
        self._read = _decode_snapshot(stored)
        _check_format(self._read.format_version)

    @property
    def head(self) -> SnapshotHead:
        read = self._read
        return SnapshotHead(read.generation, read.dropped, read.now_ms, read.next_seq, read.next_lease)

    def message_pages(self) -> Iterator[list[QueuedMessage]]:
        return _each_page(self._read.messages, self._read.message_pages, _decode_messages)

    def dedup_pages(self) -> Iterator[list[DedupRecord]]:
        return _each_page(self._read.dedup_records, self._read.dedup_pages, _decode_records)

    def attempt_pages(self) -> Iterator[list[ReceiveAttempt]]:
        return _each_page(self._read.attempts, self._read.attempt_pages, _decode_attempts)


def _each_page(
    first: list[T], pages: Sequence[memoryview], decode: Callable[[memoryview], list[T]]
) -> Iterator[list[T]]:
    for at in range(0, len(first), PAGE_ITEMS):
        yield first[at : at + PAGE_ITEMS]
    for page in pages:
        yield decode(page)


def _check_format(format_version: int) -> None:
    if format_version > FORMAT_VERSION:
        raise StoreUnavailable("a FIFO queue's log was written by a newer version of this program")
