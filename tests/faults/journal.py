"""What a load did to the store, each deed with the place in the record of the disk where it began and was answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from cqs.engines.contract import Message, Outcome, QueueRef

DAY_MS = 24 * 3_600_000
STANDARD = QueueRef("standard", fifo=False, retention_ms=4 * DAY_MS)
MOVED = QueueRef("moved", fifo=False, retention_ms=4 * DAY_MS)
PURGED = QueueRef("purged", fifo=False, retention_ms=4 * DAY_MS)
FIFO = QueueRef("fifo", fifo=True, retention_ms=4 * DAY_MS)
QUEUES = (STANDARD, MOVED, PURGED, FIFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A message that a deed sends."""

    queue: QueueRef
    id: str
    body: bytes
    group: str = ""
    dedup: str = ""


@dataclass(slots=True, kw_only=True)
class Deed:
    """One call. `answered` is None as long as nobody was told what came of it."""

    began: int
    answered: int | None = None
    puts: tuple[Put, ...] = ()
    removes: tuple[tuple[QueueRef, Message], ...] = ()
    replaces: tuple[tuple[Message, bytes], ...] = ()  # bodies
    touches: tuple[Message, ...] = ()  # whose visibility may have been changed
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


@dataclass(slots=True)
class Journal:
    deeds: list[Deed] = field(default_factory=list)
    handles: dict[str, list[bytes]] = field(default_factory=dict)  # ever given out, by message id

    def until(self, position: int) -> list[Deed]:
        """What may have had an effect by then."""
        return [deed for deed in self.deeds if deed.began <= position]
