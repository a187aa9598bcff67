"""The commands of a FIFO queue's log, and their answers. Times are Cassandra's, as the appending process knows them."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cqs.engines.contract import Outcome, RejectedEntry, SentEntry


class NewFifoMessage(msgspec.Struct, frozen=True, array_like=True):
    """An entry whose body is stored at `location`."""

    id: str
    location: str
    group: str
    dedup: str
    born_at_ms: int
    visible_at_ms: int
    deliveries: int
    first_at_ms: int


class FifoSend(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Messages to add. `generation` is that of the buckets with their bodies. If it is older than the queue's, the
    answer has the queue's."""

    now_ms: int
    generation: int
    messages: tuple[NewFifoMessage, ...]


class Receive(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    now_ms: int
    want: int
    visible_at_ms: int
    retention_ms: int
    max_receives: int
    attempt_id: str


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    now_ms: int
    keys: tuple[tuple[int, int], ...]  # (sequence, lease)


class FifoChange(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    now_ms: int
    key: tuple[int, int]
    visible_at_ms: int | None
    location: str  # of the new body; '' for none


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """Messages to remove because they are expired or have no body, unless their body has another location by now."""

    now_ms: int
    messages: tuple[tuple[int, str], ...]  # (sequence, location)


class Redelay(msgspec.Struct, frozen=True, array_like=True, tag="y"):
    now_ms: int
    delay_ms: int


class Purge(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    now_ms: int
    generation: int


class FifoDrop(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    now_ms: int


class PullBack(msgspec.Struct, frozen=True, array_like=True, tag="b"):
    """Set back the queue's time, which a process with a wrong clock moved into the future."""

    now_ms: int


Command: TypeAlias = FifoSend | Receive | Delete | FifoChange | Remove | Redelay | Purge | FifoDrop | PullBack


class SendAnswer(msgspec.Struct, frozen=True):
    """One answer per message; none if the bodies' generation has ended: the caller writes them again."""

    generation: int
    answers: tuple[SentEntry | RejectedEntry, ...] = ()


class LeasedMessage(msgspec.Struct, frozen=True):
    """A message under a lease."""

    seq: int
    lease: int
    id: str
    location: str
    group: str
    born_at_ms: int
    deliveries: int
    first_at_ms: int


class ReceiveAnswer(msgspec.Struct, frozen=True):
    messages: tuple[LeasedMessage, ...] = ()
    spent: tuple[LeasedMessage, ...] = ()
    expired: tuple[str, ...] = ()  # locations of the bodies of expired messages
    next_due_ms: int | None = None
    limit_reached: bool = False
    dropped: bool = False
    received_at_ms: int = 0


class OutcomeAnswer(msgspec.Struct, frozen=True):
    """For Delete and Change: the outcomes, and the locations of bodies that are not needed any more."""

    outcomes: tuple[Outcome, ...]
    locations: tuple[str, ...] = ()


Answer: TypeAlias = SendAnswer | ReceiveAnswer | OutcomeAnswer | None
