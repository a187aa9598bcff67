"""The operations of a load on the store, each with the positions in the disk's record at which it began and ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import apsw

from cqs.engines.contract import Message, Outcome, QueueRef

DAY_MS = 24 * 3_600_000
STANDARD = QueueRef("standard", fifo=False, retention_ms=4 * DAY_MS)
MOVED = QueueRef("moved", fifo=False, retention_ms=4 * DAY_MS)
PURGED = QueueRef("purged", fifo=False, retention_ms=4 * DAY_MS)
FIFO = QueueRef("fifo", fifo=True, retention_ms=4 * DAY_MS)
EXPIRING = QueueRef("expiring", fifo=True, retention_ms=4 * DAY_MS)
DEAD = QueueRef("dead", fifo=True, retention_ms=4 * DAY_MS)
"""Where what was delivered too often in `EXPIRING` is moved."""
PURGED_FIFO = QueueRef("purged-fifo", fifo=True, retention_ms=4 * DAY_MS)
QUEUES = (STANDARD, MOVED, PURGED, FIFO, EXPIRING, DEAD, PURGED_FIFO)
SCAN = (
    "SELECT b.id, b.body, s.seq, coalesce(s.grp, '') FROM lines l JOIN slots s USING (line) JOIN bodies b USING (seq)"
    " WHERE l.queue = ? AND l.doomed = 0"
)
RECORDS = "SELECT key, value FROM probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A message that an operation sends."""

    queue: QueueRef
    id: str
    body: bytes
    group: str = ""
    dedup: str = ""


@dataclass(slots=True, kw_only=True)
class Operation:
    """One call. `answered` is None as long as nobody was told what came of it."""

    began: int
    answered: int | None = None
    puts: tuple[Put, ...] = ()
    removes: tuple[tuple[QueueRef, Message], ...] = ()
    replaces: tuple[tuple[Message, bytes], ...] = ()  # bodies
    touches: Message | None = None  # its visibility may have been changed
    purges: QueueRef | None = None
    writes: tuple[str, int] | None = None  # a control-plane record
    leases: tuple[Message, ...] = ()  # of a FIFO queue
    leased_until_ms: int = 0
    # what the answer said
    sequences: tuple[int, ...] = ()
    originals: tuple[str, ...] = ()  # ids: of the puts or, where one was a duplicate, of the message it repeats
    outcomes: tuple[Outcome, ...] = ()  # of the removes
    replaced: tuple[Outcome, ...] = ()

    def known(self, position: int) -> bool:
        """Had it been answered by then?"""
        return self.answered is not None and self.answered <= position


def found(connection: apsw.Connection) -> list[Operation]:
    """What an earlier run left, as if it had been sent and written before the first call."""
    rows: list[tuple[Put, int]] = []
    for q in QUEUES:
        messages: list[Any] = connection.execute(SCAN, (q.id,)).fetchall()
        rows += [
            (Put(queue=q, id=message_id, body=body, group=group), seq) for message_id, body, seq, group in messages
        ]
    puts = tuple([put for put, _ in rows])
    sends = Operation(
        began=0,
        answered=0,
        puts=puts,
        sequences=tuple([seq for _, seq in rows]),
        originals=tuple([put.id for put in puts]),
    )
    records: list[Any] = connection.execute(RECORDS).fetchall()
    return [sends, *[Operation(began=0, answered=0, writes=record) for record in records]]


@dataclass(slots=True)
class Journal:
    operations: list[Operation]
    handles: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)  # and when given out, by message id

    def handles_of(self, message_id: str, position: int) -> list[bytes]:
        return [handle for began, handle in self.handles.get(message_id, ()) if began <= position]

    def until(self, position: int) -> list[Operation]:
        """What may have had an effect by then."""
        return [operation for operation in self.operations if operation.began <= position]

    def acknowledged(self, position: int) -> int:
        return sum(1 for operation in self.operations if operation.known(position))
