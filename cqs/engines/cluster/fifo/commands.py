"""What can be done to a FIFO queue, as the log keeps it, and what it answers. Times are the proposer's."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cqs.engines.contract import Outcome, RejectedEntry, SentEntry


class NewMessage(msgspec.Struct, frozen=True, array_like=True):
    """An entry whose body has been stored at `place`."""

    id: str
    location: str
    group: str
    dedup: str
    born_at_ms: int
    visible_at_ms: int
    deliveries: int
    first_at_ms: int


class Send(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """`generation` is that of the bodies' places; one that is older than the queue's is answered by the queue's."""

    now_ms: int
    generation: int
    messages: tuple[NewMessage, ...]


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


class Change(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    now_ms: int
    key: tuple[int, int]
    visible_at_ms: int | None
    location: str  # of a new body; '' for none


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """Messages that have no body any more, or are past their retention, if they are of that place still."""

    now_ms: int
    messages: tuple[tuple[int, str], ...]  # (sequence, place)


class Redelay(msgspec.Struct, frozen=True, array_like=True, tag="y"):
    now_ms: int
    delay_ms: int


class Purge(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    now_ms: int
    generation: int


class Drop(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    now_ms: int


Command: TypeAlias = Send | Receive | Delete | Change | Remove | Redelay | Purge | Drop


class SendAnswer(msgspec.Struct, frozen=True):
    """Of a Send: an answer for each message; none when its places were of before a purge, to be written anew."""

    generation: int
    answers: tuple[SentEntry | RejectedEntry, ...] = ()


class LeasedMessage(msgspec.Struct, frozen=True):
    """One message given out under a lease."""

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
    expired: tuple[str, ...] = ()  # places of messages that were past their retention
    next_due_ms: int | None = None
    limit_reached: bool = False
    dropped: bool = False
    received_at_ms: int = 0


class OutcomeAnswer(msgspec.Struct, frozen=True):
    """Of a Delete or Change: outcomes, and the places whose bodies nobody needs any more."""

    outcomes: tuple[Outcome, ...]
    locations: tuple[str, ...] = ()


Answer: TypeAlias = SendAnswer | ReceiveAnswer | OutcomeAnswer | None
