"""The state of a message, in one cell of its row, so that of two concurrent writes Cassandra keeps one whole."""

from __future__ import annotations

from typing import NamedTuple

from cqs.engines.bdqs.ids import FIRST_STAMP, IndexRow, MessageKey, Position


class MessageState(NamedTuple):
    """The message's position in the index, and its newest delivery. States of a message compare by their stamps."""

    stamp: str
    """The stamp of the message's position in the index."""
    lease: str
    """The stamp that the newest delivery gave; '' before the first delivery."""
    taken_from: str
    """The stamp of the position from which the newest delivery took the message."""
    due_ms: int
    slot: str
    deliveries: int
    first_received_ms: int

    def entry(self, message: MessageKey, born_at_ms: int) -> IndexRow:
        """The row of the index to which this state belongs."""
        position = Position(self.due_ms, message.seq, message.bucket, self.stamp)
        return IndexRow(self.slot, position, self.deliveries > 0, born_at_ms)

    def encode(self) -> str:
        """The stamp comes first: of two states with one date, Cassandra keeps the greater text."""
        return ".".join(map(str, self))


def parse_state(text: str) -> MessageState:
    stamp, lease, taken_from, due, slot, deliveries, first_ms = text.split(".")
    return MessageState(stamp, lease, taken_from, int(due), slot, int(deliveries), int(first_ms))


def sent_state(stamp: str, due_ms: int, slot: str, deliveries: int, first_received_ms: int) -> MessageState:
    """The state of a message as it is sent."""
    return MessageState(stamp, FIRST_STAMP, FIRST_STAMP, due_ms, slot, deliveries, first_received_ms)
