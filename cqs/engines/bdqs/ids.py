"""The names of things in the engine's tables, and their text forms: messages, stamps, positions, receipt handles.

A *stamp* identifies one position of a message in the index: a time, which its writer makes greater than every earlier
stamp of the message that it knows, and the writer's process. Stamps of a message compare as text, so no clock decides
which of two positions is the newer one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cns_common.clock import Clock
from cqs.engines.bdqs.schema import WINDOW_MS

GENERATION_DIGITS = 6
TIME_DIGITS = 12
NODE_DIGITS = 8
NUMBER_DIGITS = 6
PART_DIGITS = 4
SEQ_DIGITS = 16
STAMP_TIME_DIGITS = 16
COUNTER_BITS = 20
"""A message's `seq` is its arrival in ms, followed by this many bits of a counter."""
FIRST_STAMP = ""
"""Less than every stamp."""


class MessageKey(NamedTuple):
    """The key of a message's row."""

    bucket: str
    seq: int


class Position(NamedTuple):
    """A clustering key of the index. Positions sort by the time from which messages are visible, then by arrival."""

    due_ms: int
    seq: int
    bucket: str
    stamp: str

    @property
    def message(self) -> MessageKey:
        return MessageKey(self.bucket, self.seq)


def lowest_position(due_ms: int) -> Position:
    """Sorts before all positions of messages that are visible from `due_ms` on."""
    return Position(due_ms, 0, "", "")


class IndexRow(NamedTuple):
    slot: str
    position: Position
    delivered: bool
    born_at_ms: int

    @property
    def message(self) -> MessageKey:
        return self.position.message


# -- slots: the partitions of the index -------------------------------------------------------------------------------


def slot_name(generation: int, window_start_ms: int, part: int) -> str:
    """Slots sort by generation, then by time."""
    return f"{generation:0{GENERATION_DIGITS}x}{window_start_ms:0{TIME_DIGITS}x}{part:0{PART_DIGITS}x}"


def generation_prefix(generation: int) -> str:
    """Sorts before every name of the generation and after those of all earlier ones."""
    return f"{generation:0{GENERATION_DIGITS}x}"


def generation_of(name: str) -> int:
    """The generation in the name of a slot or bucket."""
    return int(name[:GENERATION_DIGITS], 16)


def window_of(due_ms: int) -> int:
    """The start of the time window to which a due time belongs."""
    return due_ms - due_ms % WINDOW_MS


def window_start(slot: str) -> int:
    return int(slot[GENERATION_DIGITS : GENERATION_DIGITS + TIME_DIGITS], 16)


# -- stamps -----------------------------------------------------------------------------------------------------------


class Stamps:
    """Makes stamps that rise within the process, and above any given stamp."""

    def __init__(self, clock: Clock, node: str, microsecond: Callable[[], int] | None = None) -> None:
        """`microsecond` draws the fraction of a ms, so that two processes seldom make stamps with one time."""
        self._clock = clock
        self._node = node
        self._microsecond = microsecond or (lambda: random.randrange(1_000))  # noqa: S311  # no secret
        self._last_us = 0

    def next(self, above: str = FIRST_STAMP) -> str:
        """The next stamp above `above`, by the wall clock: an advanced test clock must not set write timestamps."""
        now_us = self._clock.wall_ms() * 1_000 + self._microsecond()
        self._last_us = max(now_us, self._last_us + 1, stamp_us(above) + 1)
        return f"{self._last_us:0{STAMP_TIME_DIGITS}x}{self._node}"


def stamp_us(stamp: str) -> int:
    """The write timestamp, in µs, of what is written under the stamp."""
    return int(stamp[:STAMP_TIME_DIGITS], 16) if stamp else 0


# -- receipt handles --------------------------------------------------------------------------------------------------

_HANDLE = re.compile(rb"([0-9a-f]{24})\.([0-9a-f]{24}|)\.([0-9]{1,15})\.([0-9a-f]{22})\.([0-9a-f]{32})([0-9a-f]{16})\Z")


class DeliveryHandle(NamedTuple):
    """One delivery: its message, the position that it wrote, and the position from which it took the message."""

    lease: str
    """The stamp of the position that the delivery gave the message."""
    taken_from: str
    """The stamp of the position before the delivery. Two deliveries from one position are duplicates."""
    due_ms: int
    slot: str
    message: MessageKey

    @property
    def entry(self) -> IndexRow:
        """The row of the index that the delivery wrote."""
        key = self.message
        return IndexRow(self.slot, Position(self.due_ms, key.seq, key.bucket, self.lease), True, 0)

    def encode(self) -> bytes:
        key = self.message
        return (
            f"{self.lease}.{self.taken_from}.{self.due_ms}.{self.slot}.{key.bucket}{key.seq:0{SEQ_DIGITS}x}"
        ).encode()


def parse_handle(handle: bytes) -> DeliveryHandle | None:
    """None if it is not a handle of this engine."""
    found = _HANDLE.match(handle)
    if found is None:
        return None
    lease, taken_from, due, slot, bucket, seq = [part.decode() for part in found.groups()]
    return DeliveryHandle(lease, taken_from, int(due), slot, MessageKey(bucket, int(seq, 16)))


def generations_of(handles: Iterable[bytes]) -> list[int]:
    """The generations of the messages of these handles."""
    parsed = [parse_handle(handle) for handle in handles]
    return [generation_of(one.message.bucket) for one in parsed if one is not None]
