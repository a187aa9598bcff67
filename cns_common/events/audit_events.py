"""The events of queues with the attribute `Audit=on`: from them `cns pipeline verify` finds lost, repeated and
reordered messages. They are events as in `cns_common.events.schema`, but none is ever lost (ADR 0013).

    message.sent        a message is durable; written before its sender is answered
    message.received    a message was handed out; written before its receiver is answered
    message.deleted     a receiver deleted a message; written after the delete
    message.ended       why a message is not received any more; written before it is removed
    queue.audited       the audit of a queue begins or ends

An event that a crash kept from being written is one of a call without an answer. Such a message may be received without
its `message.sent`. A `message.ended` may be of a message that was not removed: what follows it counts.
"""

from __future__ import annotations

from typing import Literal

import msgspec

EndCause = Literal["expired", "dead_lettered", "moved", "purged", "queue_deleted"]


class MessageSent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="message.sent"):
    """The queue took a message. The events of one boot are in the order of the sends. A FIFO send that repeats a
    deduplication id has the original's id and sequence number again, and `duplicate`."""

    at_ms: int  # when the queue took it: its SentTimestamp
    queue: str  # ARN
    message_id: str
    group: str = ""  # MessageGroupId
    size_bytes: int  # the body in UTF-8
    checksum: str = ""  # of the body in UTF-8: CRC-32, eight hexadecimal digits; empty for a duplicate
    sequence_number: str = ""  # FIFO
    duplicate: bool = False


class MessageReceived(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="message.received"
):
    """A message was handed out. The events of one boot are in the order of the receives. A FIFO receive that repeats an
    attempt id has the same `receive_count` again."""

    at_ms: int
    queue: str
    message_id: str
    group: str = ""
    receive_count: int
    checksum: str  # of the body as it was handed out


class MessageDeleted(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="message.deleted"
):
    at_ms: int
    queue: str
    message_id: str
    group: str = ""


class MessageEnded(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="message.ended"
):
    """A message left the queue without a DeleteMessage. A purge or a DeleteQueue writes one event for all messages
    whose `message.sent` has an `at_ms` up to this one's, before and after the call, as messages may be sent meanwhile.
    """

    at_ms: int
    queue: str
    message_id: str = ""  # empty: all messages of the queue
    group: str = ""
    cause: str  # one of `EndCause`


class QueueAudited(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="queue.audited"
):
    """The audit of a queue was switched on or off. While it is off, no events are written. The events are complete from
    `complete_from_ms` on: until then a process may not know that the audit is on."""

    at_ms: int
    queue: str
    audit: Literal["on", "off"]
    complete_from_ms: int = 0  # 0: off


AuditEvent = MessageSent | MessageReceived | MessageDeleted | MessageEnded | QueueAudited
