"""The stored values: a queue's record, and a message's body as engines store it."""

from __future__ import annotations

import msgspec

from cns_common.arn import queue_arn
from cns_common.store_keys import Key
from cqs.messages.message_attributes import Attribute
from cqs.queues.names import QueueKey, is_fifo


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's record. `id` is never used for another queue; `version` rises with each change."""

    id: Key
    account: Key
    region: Key
    name: Key
    engine: str
    created_ms: int
    modified_ms: int
    version: int = 1
    purged_ms: int = 0
    attributes: dict[str, str] = {}
    """The attributes that were set, normalised; the others have their defaults."""
    tags: dict[str, str] = {}
    options: dict[str, str] = {}
    """The engine's own attributes that were set or cannot be changed, normalised."""

    @property
    def key(self) -> QueueKey:
        return (self.account, self.region, self.name)

    @property
    def arn(self) -> str:
        return queue_arn(self.region, self.account, self.name)

    @property
    def fifo(self) -> bool:
        return is_fifo(self.name)


class Body(msgspec.Struct, frozen=True, array_like=True):
    """An engine's opaque message body: all that a receive may return, with nothing left to compute."""

    text: str
    md5: str
    sender: str
    sent_at_ms: int  # unlike the engine's `born_at_ms`, unchanged by dead-letter moves
    dedup: str = ""
    attributes: tuple[Attribute, ...] = ()
    attributes_md5: str = ""  # of all attributes, as consumers receive them
    trace: str = ""
    source_arn: str = ""  # the queue from which a dead-letter move took it


encode_body = msgspec.msgpack.Encoder().encode
decode_body = msgspec.msgpack.Decoder(Body).decode
