"""The two values the service keeps: a queue as its owner set it up, and a message's body as the engine stores it."""

from __future__ import annotations

import msgspec

from cns_common.arn import queue_arn
from cqs.messages.message_attributes import Attribute
from cqs.queues.names import QueueKey, is_fifo


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's record. `id` is never used for another queue; `version` rises with each change."""

    id: str
    account: str
    region: str
    name: str
    engine: str
    created_ms: int
    modified_ms: int
    version: int = 1
    purged_ms: int = 0
    attributes: dict[str, str] = {}
    """Those that were set, checked and normalised; the rest have their defaults."""
    tags: dict[str, str] = {}

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
    """What the engine keeps as a message's opaque body: all that a receive may have to tell, and nothing to compute."""

    text: str
    md5: str
    sender: str
    sent_at_ms: int  # kept through dead-letter moves, where the engine's `born_at_ms` may start anew
    dedup: str = ""
    attributes: tuple[Attribute, ...] = ()
    attributes_md5: str = ""  # of all attributes, as receivers get them
    trace: str = ""
    source_arn: str = ""  # of the queue a dead-letter move took it from


encode_body = msgspec.msgpack.Encoder().encode
decode_body = msgspec.msgpack.Decoder(Body).decode
