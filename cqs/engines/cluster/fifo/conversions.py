"""Conversions between the engine's and the log's values: entries, handles, messages, cursors."""

from __future__ import annotations

import hashlib

from cqs.engines.cluster.cache_contract import EPOCH_DIGITS
from cqs.engines.cluster.fifo.commands import LeasedMessage, NewFifoMessage
from cqs.engines.cluster.fifo.log_time import LogTime
from cqs.engines.cluster.fifo.order import QueuedMessage
from cqs.engines.cluster.ids import BUCKET_LENGTH, DeliveryKey, MessageLocation, make_handle, parse_handle
from cqs.engines.cluster.rows import MessageRow
from cqs.engines.contract import Entry, Message, PeekedMessage

_BUCKET = "0" * BUCKET_LENGTH
"""Receipt handles have the form of those of standard queues, with this bucket."""


def new_message(entry: Entry, location: MessageLocation, time: LogTime) -> NewFifoMessage:
    return NewFifoMessage(
        entry.id,
        location.member,
        entry.group,
        entry.dedup,
        time.to_log(entry.born_at_ms),
        time.to_log(entry.visible_at_ms),
        entry.deliveries,
        time.to_log(entry.first_received_ms),
    )


def message_of(queue_id: str, given: LeasedMessage, row: MessageRow, time: LogTime) -> Message:
    handle = make_handle(DeliveryKey(_queue_hash(queue_id), given.lease, MessageLocation(_BUCKET, given.seq)))
    return Message(
        given.id,
        handle,
        row.body,
        given.seq,
        given.deliveries,
        time.to_process(given.first_at_ms),
        time.to_process(given.born_at_ms),
        given.group,
    )


def delivery_of(queue_id: str, handle: bytes) -> tuple[int, int] | None:
    """(sequence, lease) of the delivery. (0, 0), which no message has, for a handle of another queue; None for no
    handle."""
    key = parse_handle(handle)
    if key is None:
        return None
    return (key.location.seq, key.lease) if key.epoch == _queue_hash(queue_id) else (0, 0)


def _queue_hash(queue_id: str) -> str:
    """Sequence numbers are unique within a queue only, so handles need its hash."""
    return hashlib.sha256(queue_id.encode()).hexdigest()[:EPOCH_DIGITS]


def read_cursor(cursor: str) -> tuple[str, int, int]:
    at, _, seq = cursor.partition(":")
    return ("behind", 0, int(seq)) if at == "behind" else ("first", int(at), int(seq))


def peeked_of(message: QueuedMessage, row: MessageRow, time: LogTime) -> PeekedMessage:
    return PeekedMessage(
        message.id,
        row.body,
        message.seq,
        message.deliveries,
        time.to_process(message.first_at_ms),
        time.to_process(message.born_at_ms),
        time.to_process(message.visible_at_ms),
        message.group,
    )
