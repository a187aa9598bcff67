"""The calls of a load on the store, each with the positions in the disk's log where it began and was answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import apsw

from cns_common.durations import DAY_MS
from cqs.engines.contract import Message, Outcome, QueueRef

STANDARD = QueueRef("standard", fifo=False, retention_ms=4 * DAY_MS)
MOVED = QueueRef("moved", fifo=False, retention_ms=4 * DAY_MS)
PURGED = QueueRef("purged", fifo=False, retention_ms=4 * DAY_MS)
FIFO = QueueRef("fifo", fifo=True, retention_ms=4 * DAY_MS)
REDRIVE = QueueRef("redrive", fifo=True, retention_ms=4 * DAY_MS)
DEAD_LETTERS = QueueRef("dead", fifo=True, retention_ms=4 * DAY_MS)
"""The dead-letter queue of `REDRIVE`."""
PURGED_FIFO = QueueRef("purged-fifo", fifo=True, retention_ms=4 * DAY_MS)
QUEUES = (STANDARD, MOVED, PURGED, FIFO, REDRIVE, DEAD_LETTERS, PURGED_FIFO)
SCAN = (
    "SELECT b.id, b.body, s.seq, coalesce(s.grp, '') FROM lines l JOIN slots s USING (line) JOIN bodies b USING (seq)"
    " WHERE l.queue = ? AND l.doomed = 0"
)
RECORDS = "SELECT key, value FROM probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message sent by a call."""

    queue: QueueRef
    id: str
    body: bytes
    group: str = ""
    dedup: str = ""


@dataclass(slots=True, kw_only=True)
class StoreCall:
    """`answered` is None until the call is answered."""

    began: int
    answered: int | None = None
    puts: tuple[SentMessage, ...] = ()
    removes: tuple[tuple[QueueRef, Message], ...] = ()
    replaces: tuple[tuple[Message, bytes], ...] = ()  # bodies
    touches: Message | None = None  # its visibility may have been changed
    purges: QueueRef | None = None
    writes: tuple[str, int] | None = None  # a control-plane record
    leases: tuple[Message, ...] = ()  # of a FIFO queue
    leased_until_ms: int = 0
    # of the answer:
    sequences: tuple[int, ...] = ()
    originals: tuple[str, ...] = ()  # ids of the puts; of a duplicate, the id of the first message
    outcomes: tuple[Outcome, ...] = ()  # of the removes
    replaced: tuple[Outcome, ...] = ()

    def is_answered(self, position: int) -> bool:
        """Whether it had been answered at `position`."""
        return self.answered is not None and self.answered <= position


def existing_calls(connection: apsw.Connection) -> list[StoreCall]:
    """The contents left by an earlier run, as calls that were answered at position 0."""
    rows: list[tuple[SentMessage, int]] = []
    for q in QUEUES:
        messages: list[Any] = connection.execute(SCAN, (q.id,)).fetchall()
        rows += [
            (SentMessage(queue=q, id=message_id, body=body, group=group), seq)
            for message_id, body, seq, group in messages
        ]
    puts = tuple([put for put, _ in rows])
    sends = StoreCall(
        began=0,
        answered=0,
        puts=puts,
        sequences=tuple([seq for _, seq in rows]),
        originals=tuple([put.id for put in puts]),
    )
    records: list[Any] = connection.execute(RECORDS).fetchall()
    return [sends, *[StoreCall(began=0, answered=0, writes=record) for record in records]]


@dataclass(slots=True)
class Journal:
    calls: list[StoreCall]
    handles: dict[str, list[tuple[int, bytes]]] = field(
        default_factory=dict
    )  # by message id: when given out, and the handle

    def handles_of(self, message_id: str, position: int) -> list[bytes]:
        return [handle for began, handle in self.handles.get(message_id, ()) if began <= position]

    def until(self, position: int) -> list[StoreCall]:
        """The calls that may have had an effect at `position`."""
        return [call for call in self.calls if call.began <= position]

    def acknowledged(self, position: int) -> int:
        return sum(1 for call in self.calls if call.is_answered(position))
