"""The rows of a bucket, and the rules for them: what may be received, when the reader leaves the bucket, what repair
does. No I/O."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from cqs.engines.cassieq.schema import MOVED

NEVER_MS = 2**62
"""The due time of a bucket without messages."""


class CassieqMessageRow(NamedTuple):
    """A message without its body."""

    monoton: int
    id: str
    born_at_ms: int
    tenant: str
    tag: str
    visible_at_ms: int
    version: int
    deliveries: int
    first_at_ms: int
    acked: bool
    lease: str | None
    moved_to: int | None

    @property
    def live(self) -> bool:
        """Whether the message is still in this bucket: neither acknowledged nor moved."""
        return not self.acked and self.version != MOVED

    @property
    def ever_delivered(self) -> bool:
        return self.version > 0

    def visible(self, now_ms: int) -> bool:
        return self.live and self.visible_at_ms <= now_ms

    def expired(self, retention_ms: int, now_ms: int) -> bool:
        """Whether the message is too old. A hidden message does not expire."""
        return self.visible(now_ms) and self.born_at_ms + retention_ms <= now_ms


class MessageBucket(NamedTuple):
    number: int
    sealed_at_ms: int | None
    rows: tuple[CassieqMessageRow, ...]

    @property
    def live(self) -> list[CassieqMessageRow]:
        return [row for row in self.rows if row.live]

    def due_ms(self) -> int:
        """When the first of its messages is visible; NEVER_MS if it has none."""
        return due_of(self.rows)


def due_of(rows: Iterable[CassieqMessageRow]) -> int:
    return min((row.visible_at_ms for row in rows if row.live), default=NEVER_MS)


def may_leave(bucket: MessageBucket, bucket_size: int, next_monoton: int, now_ms: int) -> bool:
    """Whether the reader may leave the bucket: each known message was delivered or is hidden, and new messages go to
    later buckets."""
    if next_monoton < (bucket.number + 1) * bucket_size:
        return False
    return all(row.ever_delivered or not row.visible(now_ms) for row in bucket.rows)


class Repair(enum.Enum):
    WAIT = enum.auto()
    """The seal is too recent: late writes may still arrive."""
    REPUBLISH = enum.auto()
    """Some of its messages were written after the seal, so that no reader found them."""
    FINALIZE = enum.auto()
    """Nothing is left to do: numbers without a message remain unused."""


def repair_of(bucket: MessageBucket, wait_ms: int, now_ms: int) -> Repair:
    """The decision of repair on a bucket that the reader has left."""
    sealed_at_ms = bucket.sealed_at_ms if bucket.sealed_at_ms is not None else 0  # the seal itself has expired
    if now_ms < sealed_at_ms + wait_ms:
        return Repair.WAIT
    return Repair.REPUBLISH if to_republish(bucket, now_ms) else Repair.FINALIZE


def to_republish(bucket: MessageBucket, now_ms: int) -> list[CassieqMessageRow]:
    """Late messages, and those that another repairer began to move."""
    return [
        row
        for row in bucket.rows
        if not row.acked and (row.version == MOVED or (row.version == 0 and row.visible(now_ms)))
    ]
