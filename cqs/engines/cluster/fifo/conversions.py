"""Between the engine's values and the log's: entries, handles, messages, places in a queue that is browsed."""

from __future__ import annotations

import hashlib

from cqs.engines.cluster.cache_contract import EPOCH_DIGITS
from cqs.engines.cluster.fifo.commands import Given, NewMessage
from cqs.engines.cluster.fifo.order import Kept
from cqs.engines.cluster.ids import BUCKET_LENGTH, Key, Place, handle_of, key_of
from cqs.engines.cluster.rows import Row
from cqs.engines.contract import Entry, Message, PeekedMessage

_BUCKET = "0" * BUCKET_LENGTH
"""Handles are made as those of standard queues are, and of no bucket."""


def new_message(entry: Entry, place: Place) -> NewMessage:
    return NewMessage(
        entry.id,
        place.member,
        entry.group,
        entry.dedup,
        entry.born_at_ms,
        entry.visible_at_ms,
        entry.deliveries,
        entry.first_received_ms,
    )


def message_of(queue: str, given: Given, row: Row) -> Message:
    handle = handle_of(Key(_tag(queue), given.lease, Place(_BUCKET, given.seq)))
    return Message(
        given.id, handle, row.body, given.seq, given.deliveries, given.first_at_ms, given.born_at_ms, given.group
    )


def delivery_of(queue: str, handle: bytes) -> tuple[int, int] | None:
    """(sequence, lease); of another queue's handle, what no message has; None when it is no handle."""
    key = key_of(handle)
    if key is None:
        return None
    return (key.place.seq, key.lease) if key.epoch == _tag(queue) else (0, 0)


def _tag(queue: str) -> str:
    """Sequence numbers are a queue's own."""
    return hashlib.sha256(queue.encode()).hexdigest()[:EPOCH_DIGITS]


def read_cursor(cursor: str) -> tuple[str, int, int]:
    at, _, seq = cursor.partition(":")
    return ("behind", 0, int(seq)) if at == "behind" else ("first", int(at), int(seq))


def peeked_of(kept: Kept, row: Row) -> PeekedMessage:
    return PeekedMessage(
        kept.id,
        row.body,
        kept.seq,
        kept.deliveries,
        kept.first_at_ms,
        kept.born_at_ms,
        kept.visible_at_ms,
        kept.group,
    )
